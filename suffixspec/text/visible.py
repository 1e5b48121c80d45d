"""Text that came from files or the command line, made safe to look at."""

import sys

_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_CONTROLS[0x7F] = "\u2421"
# Not characters by themselves, or ones that move or hide what stands around them: C1 controls, surrogates
# without a partner (file names that are no UTF-8), and the embedding, overriding and isolating of direction.
_REPLACED = dict.fromkeys(
    [*range(0x80, 0xA0), *range(0xD800, 0xE000), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"
)
_TABLE = _CONTROLS | _REPLACED


def visible(text: object) -> str:
    """``str(text)`` with its control characters shown as pictures, so that none acts on the terminal or page.

    Tab and line feed stay. The result can always be encoded as UTF-8. Cost: O(length).
    """
    return str(text).translate(_TABLE)


def note(sentence: str) -> None:
    """Tell the user of a command something that is not its result, on stderr."""
    sys.stderr.write(f"{visible(sentence)}\n")
    sys.stderr.flush()
