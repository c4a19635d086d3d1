import asyncio


class Source:
    """Pretends to be slow."""

    def __init__(self, pages):
        self.pages = pages

    async def fetch(self, number):
        await asyncio.sleep(0)
        return self.pages.get(number, [])
