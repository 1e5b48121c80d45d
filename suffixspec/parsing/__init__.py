"""What a model's text means: content, reasoning and calls of tools, as it streams.

Imports nothing heavy; transformers only for a tokenizer that brings a response template.
"""

from suffixspec.parsing.delta import (
    ContentDelta,
    Delta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStart,
    merge,
    message_of,
)
from suffixspec.parsing.output_parser import OutputParser
from suffixspec.parsing.parser_for import parser_for
from suffixspec.parsing.reasoning import Reasoning, reasonings
from suffixspec.parsing.required import required_call_format
from suffixspec.parsing.single_call import SingleCallParser

__all__ = [
    "ContentDelta",
    "Delta",
    "OutputParser",
    "Reasoning",
    "ReasoningDelta",
    "SingleCallParser",
    "ToolCallArguments",
    "ToolCallStart",
    "merge",
    "message_of",
    "parser_for",
    "reasonings",
    "required_call_format",
]
