"""A conversation that is built record by record, with the places where it was rewound or compacted."""

from collections.abc import Iterable

from suffixspec.trace.session import Message


class Transcript:
    """The messages of one conversation, split into parts where its context stopped growing.

    An agent's log is one text that grows, until a user goes back to an earlier message or the agent compacts
    its context. There a new part begins: its messages are what the model was shown from then on, and those
    assistant messages which an earlier part already holds as outputs become context.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._parts: list[tuple[Message, ...]] = []

    def __len__(self) -> int:
        """Return the number of messages of the current part."""
        return len(self.messages)

    def append(self, message: Message) -> int:
        """Add a message and return its index. Cost: O(1)."""
        self.messages.append(message)
        return len(self.messages) - 1

    def rewind(self, length: int) -> None:
        """Go back to the first ``length`` messages. Cost: O(messages)."""
        self.restart(self.messages[:length])

    def restart(self, messages: Iterable[Message]) -> None:
        """Go on with other messages: a rewound or a compacted context. Cost: O(messages)."""
        kept = list(messages)
        if any(message.is_output for message in self.messages):
            self._parts.append(tuple(self.messages))
            kept = [message.as_context() for message in kept]
        self.messages = kept

    def parts(self) -> list[tuple[Message, ...]]:
        """Return the parts that hold model output, in order. Cost: O(messages)."""
        everything = [*self._parts, tuple(self.messages)]
        return [part for part in everything if any(message.is_output for message in part)]
