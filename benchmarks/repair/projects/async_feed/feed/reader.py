async def read_page(source, number):
    items = source.fetch(number)
    return [item.strip() for item in items]


async def read_all(source, limit=10):
    found = []
    for number in range(1, limit + 1):
        page = await read_page(source, number)
        if not page:
            break
        found.extend(page)
    return found
