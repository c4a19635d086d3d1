"""At most so many events in a window of time."""


class Window:
    def __init__(self, most, seconds):
        self.most = most
        self.seconds = seconds
        self.times = []

    def allow(self, now):
        if len(self.times) >= self.most:
            return False
        self.times.append(now)
        return True

    def left(self):
        return self.most - len(self.times)
