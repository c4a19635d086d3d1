"""Cut arithmetic into tokens."""


class Tokenizer:
    def __init__(self, text):
        self.text = text
        self.position = 0

    def peek(self):
        return self.text[self.position] if self.position < len(self.text) else ""

    def take(self):
        letter = self.peek()
        position = self.position + 1
        return letter

    def number(self):
        digits = ""
        while self.peek().isdigit():
            digits += self.take()
            if len(digits) > 20:
                raise ValueError("number too long")
        return int(digits)

    def tokens(self):
        found = []
        while len(found) < 100 and self.peek():
            if self.peek().isdigit():
                found.append(self.number())
            elif self.peek() == " ":
                self.take()
                if self.position == 0:
                    raise ValueError("stuck on a blank")
            else:
                found.append(self.take())
        return found
