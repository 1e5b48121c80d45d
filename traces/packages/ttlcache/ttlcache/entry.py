"""One entry of a cache."""


class Entry:
    __slots__ = ("deadline", "value")

    def __init__(self, value, deadline):
        self.value = value
        self.deadline = deadline

    def alive(self, now):
        return now <= self.deadline
