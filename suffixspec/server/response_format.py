"""``response_format``: outputs that are bound to a form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffixspec.errors import SuffixspecError
from suffixspec.server.call import Prompt
from suffixspec.server.errors import ApiError
from suffixspec.server.fields import Fields

if TYPE_CHECKING:
    from suffixspec.server.service import Service
    from suffixspec.verify.constraint import Constraint


def read_response_format(value: Any, service: Service, prompt: Prompt) -> Constraint | None:
    """What a ``response_format`` of chat completions' form allows; None for free text.

    Besides OpenAI's there is ``{"type": "grammar", "grammar": "root ::= …"}``. Compiled here, so that what cannot
    be followed is refused before the call waits. What a model thinks before its answer is free: the form begins
    behind ``</think>``, where the prompt or the model itself opens with ``<think>``; of a model that writes to
    channels (gpt-oss) the text of the final one is bound.

    Raises:
        ApiError: an unknown type, a missing schema, or one that cannot be followed.
    """
    if value is None:
        return None
    fields = Fields(value, "response_format.")
    kind = fields.get("type")
    if kind == "text":
        return None
    if kind == "json_schema":
        schema = fields.object("json_schema")
        if schema is None or schema.object("schema") is None:
            raise fields.refuse("json_schema", 'an object with a "schema"')
        schema.text("name")
        schema.flag("strict")
    elif kind == "grammar":
        if not fields.text("grammar"):
            raise fields.refuse("grammar", "a grammar in EBNF")
    elif kind != "json_object":
        raise fields.refuse("type", "one of text, json_object, json_schema, grammar")
    try:
        return service.constraint(fields.value, prompt)
    except ApiError:
        raise
    except SuffixspecError as error:
        raise ApiError(str(error), param="response_format", code="unsupported_parameter") from error
