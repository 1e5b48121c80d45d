"""Calls as bare JSON: Llama 3."""

from __future__ import annotations

from suffixspec.parsing.form_parser import FormParser, Reading

TAG = "<|python_tag|>"


class LlamaParser(FormParser):
    """``{"name": …, "parameters": {…}}`` at the start of the message, or behind ``<|python_tag|>``.

    Several stand behind one another, separated by white space, semicolons or commas, or in a list. Without
    the tag a JSON object is a call only where it names a function that there is and has parameters; with it
    any such object is. Code behind the tag is content, tag included.
    """

    bare = True

    def _content_and_calls(self) -> Reading[None]:
        while (yield from self._until((TAG,))):
            if not (yield from self._bare_calls(marked=True)):
                self._say(TAG)
