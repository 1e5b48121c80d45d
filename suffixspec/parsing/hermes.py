"""Calls between ``<tool_call>`` and ``</tool_call>``: Hermes, Qwen, and many that follow them."""

from __future__ import annotations

import json

from suffixspec.parsing.form_parser import FormParser, MalformedError, Reading

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION, _END_FUNCTION = "<function=", "</function>"
_PARAMETER = "<parameter="
_END_PARAMETER = ("\n</parameter>", "</parameter>")
_LONGEST_NAME = 256


class HermesParser(FormParser):
    """``<tool_call>{"name": …, "arguments": {…}}</tool_call>``, any number of them.

    Also the form of Qwen's coder models, ``<tool_call><function=…><parameter=…>…</parameter></function>
    </tool_call>``: a parameter is a string unless its schema says otherwise and the text is such a value.
    """

    def _content_and_calls(self) -> Reading[None]:
        while (yield from self._until((OPEN,))):
            if (yield from self._tentative(self._call())):
                # What is missing inside (a brace) is not missed.
                yield from self._tentative(self._close())
            else:
                self._say(OPEN)

    def _call(self) -> Reading[None]:
        yield from self._white()
        if (yield from self._marker((_FUNCTION,))):
            yield from self._tagged_call()
        else:
            yield from self._call_object(marked=True)

    def _close(self) -> Reading[None]:
        yield from self._white()
        if not (yield from self._marker((CLOSE,))):
            raise MalformedError

    def _tagged_call(self) -> Reading[None]:
        name = yield from self._name()
        if not self._choice.allows(name, marked=True):
            raise MalformedError
        schemas = self._choice.parameters.get(name, {})
        index = None
        separator = "{"
        while True:
            yield from self._white()
            tag = yield from self._marker((_PARAMETER, _END_FUNCTION))
            if not tag:
                if index is not None and not self._ended:  # cut off, it would stay open
                    self._arguments(index)("}")
                raise MalformedError
            key = (yield from self._name()) if tag == _PARAMETER else ""
            if index is None:
                index = self._start(name)
            take = self._arguments(index)
            if tag == _END_FUNCTION:
                take("{}" if separator == "{" else "}")
                self._mark()
                return
            take(f"{separator}{json.dumps(key, ensure_ascii=False)}: ")
            separator = ", "
            yield from self._parameter(index, schemas.get(key))
            self._mark()

    def _name(self) -> Reading[str]:
        """Up to ">"."""
        name = ""
        while True:
            char = yield from self._read()
            if char == ">" and name.strip():
                return name.strip()
            if not char or char in "<>\n" or len(name) >= _LONGEST_NAME:
                raise MalformedError
            name += char

    def _parameter(self, index: int, schema: object) -> Reading[None]:
        """A value up to its closing tag; a string is passed on as it comes."""
        take = self._arguments(index)
        is_text = _is_text(schema)
        pieces: list[str] = []
        char = yield from self._read()
        if char != "\n":  # the line break behind the tag belongs to the tag, as does the one before the next
            self._unread(char)
        if is_text:
            take('"')
        while not (yield from self._marker(_END_PARAMETER)):
            char = yield from self._read()
            if not char:
                take("".join(pieces))
                raise MalformedError
            if is_text:
                take(json.dumps(char, ensure_ascii=False)[1:-1])
            else:
                pieces.append(char)
        take('"' if is_text else _as_json("".join(pieces)))


def _is_text(schema: object) -> bool:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(schema, dict) and kind is None:
        return not any(word in schema for word in ("anyOf", "oneOf", "allOf", "enum", "const", "$ref"))
    return kind is None or kind == "string"


def _as_json(text: str) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    return text.strip()
