"""Calls behind ``[TOOL_CALLS]``: Mistral, the older and the newer form."""

from __future__ import annotations

from suffixspec.parsing.form_parser import FormParser, MalformedError, Reading

TAG, ARGUMENTS, IDENTIFIER = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_LONGEST_NAME = 256


class MistralParser(FormParser):
    """``[TOOL_CALLS] [{"name": …, "arguments": {…}}, …]``, or ``[TOOL_CALLS]name[ARGS]{…}`` for each call.

    The newer form may have an id behind ``[CALL_ID]``, and its ``[ARGS]`` may be missing.
    """

    def _content_and_calls(self) -> Reading[None]:
        while (yield from self._until((TAG,))):
            if not (yield from self._bare_calls(marked=True)) and not (
                yield from self._tentative(self._named_call())
            ):
                self._say(TAG)

    def _named_call(self) -> Reading[None]:
        name = yield from self._word()
        tag = yield from self._marker((ARGUMENTS, IDENTIFIER))
        if tag == IDENTIFIER:
            yield from self._word()
            if not (yield from self._marker((ARGUMENTS,))):
                raise MalformedError
        char = yield from self._solid()
        self._unread(char)
        if char != "{" or not self._choice.allows(name, marked=True):
            raise MalformedError
        yield from self._value(self._arguments(self._start(name)))

    def _word(self) -> Reading[str]:
        """Up to a bracket or a brace."""
        word = ""
        yield from self._white()
        while True:
            char = yield from self._read()
            if word.strip() and char in {"[", "{"}:
                self._unread(char)
                return word.rstrip()
            if not char or char in '\n[]{}"' or len(word) >= _LONGEST_NAME:
                raise MalformedError
            word += char
