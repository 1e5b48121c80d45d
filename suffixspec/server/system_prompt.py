"""The one thing that is taken out of what a client sends: accounting that is addressed to the API.

Claude Code begins its system prompt with a text block such as ::

    x-anthropic-billing-header: cc_version=…; cc_entrypoint=cli; cch=…;

Its value changes from call to call. Anthropic's API reads it and does not show it to the model, so a model
behind any other server sees it only by accident; and since it stands at the very front of the prompt, not one
token of KV could be reused afterwards. So it is taken out here too: that line and nothing else, only where a
system prompt begins with it, and never from a user's or a tool's text. It is not guessed what else may be
volatile (a date, a working directory): the model is meant to see that, and a session then says where its prompt
departed from what was seen.
"""

from __future__ import annotations

import re

_BILLING = re.compile(r"\s*x-anthropic-billing-header:[^\n]*(?:\n+|\Z)", re.IGNORECASE)

DROPPED = "x-anthropic-billing-header"
"""What a response's header says was left out."""


def without_billing_line(text: str) -> str:
    r"""A system prompt without the line for the API's accounting at its head.

    Example:
        >>> without_billing_line("x-anthropic-billing-header: cch=1;\nYou are an agent.")
        'You are an agent.'
        >>> without_billing_line("Mention x-anthropic-billing-header: cch=1;")
        'Mention x-anthropic-billing-header: cch=1;'
    """
    found = _BILLING.match(text)
    return text if found is None else text[found.end() :]
