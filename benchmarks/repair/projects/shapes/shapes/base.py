class Shape:
    def __init__(self, name):
        self.name = name
        self.tags = []

    def area(self):
        raise NotImplementedError

    def label(self):
        return f"{self.name}: {self.area():.2f}"
