"""A cache of bounded size that forgets what was used longest ago."""


class Cache:
    def __init__(self, size):
        self.size = size
        self.values = {}
        self.order = []

    def get(self, key, default=None):
        if key not in self.values:
            return default
        self.touch(key)
        return self.values[key]

    def put(self, key, value):
        self.values[key] = value
        self.touch(key)
        if len(self.values) > self.size:
            oldest = self.order.pop()
            del self.values[oldest]

    def touch(self, key):
        if key in self.order:
            self.order.remove(key)
        self.order.append(key)

    def __contains__(self, key):
        return key in self.values
