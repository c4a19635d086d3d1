"""Evaluate expressions in reverse Polish notation."""


class StackMachine:
    def __init__(self):
        self.stack = []

    def push(self, value):
        self.stack.append(value)

    def pop(self):
        if not self.stack:
            raise ValueError("nothing left on the stack")
        return self.stack.pop()

    def apply(self, symbol):
        right = self.pop()
        left = self.pop()
        if symbol == "+":
            self.push(left + right)
        elif symbol == "-":
            self.push(right - left)
        elif symbol == "*":
            self.push(left * right)
        elif symbol == "/":
            self.push(left / right)
        else:
            raise ValueError(f"unknown symbol {symbol}")


def evaluate(expression):
    machine = StackMachine()
    for token in expression.split():
        if token.lstrip("-").isdigit():
            machine.push(int(token))
        else:
            machine.apply(token)
    return machine.pop()
