"""Who gets which newsletter."""


class Newsletter:
    readers = []
    limit = 100

    def __init__(self, title):
        self.title = title

    def subscribe(self, address):
        if address in self.readers:
            return False
        if len(self.readers) >= self.limit:
            raise OverflowError("the list is full")
        self.readers.append(address)
        return True

    def unsubscribe(self, address):
        self.readers.remove(address)

    def summary(self):
        return f"{self.title}: {len(self.readers)} readers"
