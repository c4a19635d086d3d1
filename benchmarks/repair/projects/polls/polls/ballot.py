class Ballot:
    def __init__(self, choices):
        self.choices = list(choices)
        self.votes = dict.fromkeys(self.choices, 0)

    def vote(self, choice):
        if choice not in self.votes:
            raise KeyError(choice)
        self.votes[choice] += 1

    @property
    def total(self):
        return sum(self.votes.keys())
