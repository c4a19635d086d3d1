"""Count the tags of articles."""


def collect(articles, seen=[]):
    """All tags of the articles, each once, in order of appearance."""
    for article in articles:
        for tag in article["tags"]:
            if tag not in seen:
                seen.append(tag)
    return seen


def weights(articles):
    counts = {}
    for article in articles:
        for tag in article["tags"]:
            counts[tag] = counts.get(tag, 0) + 1
    return counts


def cloud(articles, largest=5):
    """Tag -> size from 1 to `largest`."""
    counts = weights(articles)
    most = max(counts.values(), default=1)
    return {tag: max(1, round(count / most * largest)) for tag, count in counts.items()}
