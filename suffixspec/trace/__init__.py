r"""Recorded agent loops: the trace format, its reader and writer, and importers.

The trace format, version 1
---------------------------
A trace is UTF-8 text, one JSON object a line, one session (one agent loop) an object. Blank lines are
ignored. The file may be compressed with gzip or zstandard; that is told by its first bytes, not by its name.
One line, here broken for reading::

    {"version": 1, "session_id": "django__django-11564#2", "model": "m-7b",
     "tools": [{"type": "function", "function": {"name": "bash", "parameters": {}}}],
     "messages": [
       {"role": "system", "content": "You are an agent."},
       {"role": "user", "content": "Fix the bug."},
       {"role": "assistant", "content": "Let me look.", "reasoning_content": "It may be in urls.py.",
        "tool_calls": [{"id": "c1", "type": "function",
                        "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}],
        "token_ids": [5006, 502, 1234, 2]},
       {"role": "tool", "content": "urls.py", "tool_call_id": "c1"},
       {"role": "assistant", "content": "Done."}]}

Keys of a session:

- ``version`` (1; missing means 1). Any other number is an error.
- ``session_id`` (string; where missing, ``FILE#LINE``). Its last path segment, without a trailing ``#N`` or
  ``@…``, names the task if it looks like ``owner__repo-123``: sessions of one task are retries of each other.
- ``messages`` (array, required): the conversation in order. Each assistant message is one model call, and
  what came before it is what the model was shown. At least one must be the model's own.
- ``model``, ``namespace`` (who shares a history), ``task``, ``source``: strings, optional.
- ``tools``: array of objects, optional: the definitions which the model was shown.

Keys of a message:

- ``role`` (required): ``system``, ``developer``, ``user``, ``assistant`` or ``tool``.
- ``content``: a string, null, or an array of parts like ``{"type": "text", "text": …}``, whose texts are
  joined without anything between them; parts of other types are left out. May be missing for ``assistant``
  only.
- ``tool_calls``: array of ``{"id", "type": "function", "function": {"name", "arguments"}}`` or of
  ``{"name", "arguments"}``. ``arguments`` is the string which the model wrote, verbatim; an object is
  accepted and serialised by ``json.dumps`` in its own key order.
- ``reasoning_content`` (or ``reasoning``): a string, what the model wrote before its content.
- ``tool_call_id``, ``name``: strings.
- ``token_ids``: array of integers in 0 … 2³¹-1: the ids of an assistant message as the model produced them.
- ``model_output``: false for an assistant message that the model did not write in this session (a fixed
  greeting, a demonstration, a copy from an earlier session): it is context and never decoded.

Unknown keys are ignored. A line may be 256 MiB long; so may a JSON document of an imported format. Escaped
lone surrogates (half a character, cut in two by a logger) are read as U+FFFD. Errors are
`suffixspec.errors.InputError` with the text ``FILE:LINE: expected …, got …``; for a JSON document of an
imported format, LINE is where it starts.

Other formats
-------------
`read_sessions` also reads, told by content: recordings of ``suffixspec record`` (a call a line), SWE-agent
``.traj``, mini-swe-agent ``.traj.json``, OpenHands ``output.jsonl`` and event lists, OpenAI chat JSONL and
request/response logs, ShareGPT, tau-bench, tau2-bench, Claude Code logs, Codex rollouts, pi sessions, aider chat
histories and ATIF. The docstring of each module in `suffixspec.trace.importers` says what becomes of that
format. Logs which rewind or compact
their context give one session per stretch of growing context: ``ID``, ``ID#2``, ….

Runs of these tools that hold no model output (a chat that was opened and closed, a run that failed early) are
left out; a file with nothing else is an error. Session ids may repeat within and across files; ``suffixspec
convert`` makes them unique: when an id occurs again, in the order of the inputs, it becomes ``ID#2``,
``ID#3`` and so on.
"""

from suffixspec.trace.reader import read_sessions
from suffixspec.trace.session import ROLES, Message, ToolCall, TraceSession
from suffixspec.trace.writer import write_sessions

__all__ = ["ROLES", "Message", "ToolCall", "TraceSession", "read_sessions", "write_sessions"]
