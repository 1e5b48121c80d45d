"""Predicted Outputs: text that the client expects to come out again.

It is draft material for this one call: it decides what is proposed, never what comes out, and it is forgotten
with the call. Each of its tokens counts once: as accepted where the output has it, in its order, else as rejected.
Rejected ones are not part of ``completion_tokens``: unlike at OpenAI's, nobody pays for them.
"""

from __future__ import annotations

from suffixspec.server.fields import Fields, text_parts


def read_prediction(fields: Fields) -> str | None:
    """The text of a request's ``prediction``.

    Raises:
        ApiError: not ``{"type": "content", "content": …}`` with a string or text parts.
    """
    prediction = fields.object("prediction")
    if prediction is None:
        return None
    if prediction.get("type") != "content":
        raise prediction.refuse("type", '"content"')
    content = prediction.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise prediction.refuse("content", "a string or an array of text parts")
    return "".join(text_parts(content, prediction.path("content")))
