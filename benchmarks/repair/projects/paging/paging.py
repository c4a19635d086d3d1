"""Split a list of results into numbered pages."""


def page_count(total, size):
    """How many pages of `size` items hold `total` items."""
    if size < 1:
        raise ValueError("size must be at least 1")
    return (total + size - 1) // size


def page(items, number, size):
    """The items of one page; pages are numbered from 1."""
    if not 1 <= number <= max(1, page_count(len(items), size)):
        raise IndexError(f"no page {number}")
    start = number * size
    return items[start : start + size]


def page_links(current, total_pages, around=2):
    """The page numbers to show beside the current one."""
    first = max(1, current - around)
    last = min(total_pages, current + around)
    return list(range(first, last + 1))
