"""A queue of jobs: higher priority first, then in order of arrival."""


class Scheduler:
    def __init__(self):
        self.jobs = []
        self.counter = 0

    def submit(self, name, priority=0):
        self.jobs.append((priority, self.counter, name))
        self.counter += 1

    def order(self):
        ranked = sorted(self.jobs, key=lambda job: (job[0], job[1]))
        return [name for _, _, name in ranked]

    def next(self):
        if not self.jobs:
            return None
        name = self.order()[0]
        self.jobs = [job for job in self.jobs if job[2] != name]
        return name
