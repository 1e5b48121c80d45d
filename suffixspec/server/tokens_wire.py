"""``/tokenize`` and ``/detokenize``, in the forms of vLLM's and llama.cpp's servers at once."""

from __future__ import annotations

from typing import Any

from suffixspec.server.conversation import read_messages, read_tools
from suffixspec.server.errors import ApiError
from suffixspec.server.wire import Request

_TEXT_FIELDS = ("prompt", "content")


def tokenize(request: Request) -> dict[str, Any]:
    """The tokens of a text (``prompt`` or ``content``) or of a conversation (``messages``, ``tools``).

    A conversation is rendered as a model call would be, the header of the reply included.

    Raises:
        ApiError: the request is not in order.
    """
    fields, service = request.body, request.service
    request.known({*_TEXT_FIELDS, "messages", "tools", "model", "return_token_strs", "with_pieces"})
    given = [name for name in (*_TEXT_FIELDS, "messages") if name in fields]
    if len(given) != 1:
        got = " and ".join(given) or "none of them"
        raise ApiError(f"expected one of prompt, content and messages, got {got}")
    if given == ["messages"]:
        messages = read_messages(fields.get("messages"))
        ids = service.render(messages, read_tools(fields.get("tools")), namespace=request.namespace).token_ids
        tokens = [] if ids is None else ids.tolist()
    else:
        tokens = service.tokenizer.encode(fields.text(given[0]) or "")
    answer: dict[str, Any] = {
        "tokens": tokens,
        "count": len(tokens),
        "max_model_len": service.context,
    }
    if fields.flag("return_token_strs"):
        answer["token_strs"] = [service.tokenizer.decode([token], continues=True) for token in tokens]
    return answer


def detokenize(request: Request) -> dict[str, Any]:
    """The text of ``tokens``.

    Raises:
        ApiError: the request is not in order.
    """
    fields, service = request.body, request.service
    request.known({"tokens", "model"})
    tokens = fields.items("tokens")
    size = service.tokenizer.vocab_size
    whole = tokens is not None and all(
        isinstance(token, int) and not isinstance(token, bool) and 0 <= token < size for token in tokens
    )
    if tokens is None or not whole:
        raise fields.refuse("tokens", f"an array of token ids below {size:,}")
    text = service.tokenizer.decode(tokens)
    return {"prompt": text, "content": text}
