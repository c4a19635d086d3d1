"""A robot on a grid; y grows to the north."""

NORTH, EAST, SOUTH, WEST = range(4)
STEPS = {NORTH: (0, 1), EAST: (1, 0), SOUTH: (0, -1), WEST: (-1, 0)}


class Robot:
    def __init__(self, x=0, y=0, facing=NORTH):
        self.x, self.y, self.facing = x, y, facing

    def right(self):
        self.facing = (self.facing + 1) % 4

    def left(self):
        self.facing = (self.facing + 1) % 4

    def forward(self, steps=1):
        dx, dy = STEPS[self.facing]
        self.x += dx * steps
        self.y += dy * steps

    def follow(self, commands):
        for command in commands:
            {"L": self.left, "R": self.right, "F": self.forward}[command]()
        return self.x, self.y
