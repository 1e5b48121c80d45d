"""Small logs of every format, written for these tests, and what a reader must find in them."""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Sample:
    """A log of one format.

    ``outputs`` holds, for every session, what the model wrote: (text, [(tool, arguments), …]) a turn.
    """

    text: str
    title: str
    outputs: dict[str, list[tuple[str, list[tuple[str, str]]]]]
    model: str | None = None
    context: list[str] = field(default_factory=list)
    """Texts which must be in the first session and not be the model's."""


def _lines(*records: Any) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def call(name: str, arguments: str, call_id: str = "c1") -> dict[str, Any]:
    """Build an OpenAI tool call."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


ODD = '{"cmd":  "ls -l",\n "n": 1.0}'
"""Arguments that any re-serialisation would change."""

SYSTEM = {"role": "system", "content": "You act."}
USER = {"role": "user", "content": "Fix it é."}

NATIVE = Sample(
    _lines(
        {
            "version": 1,
            "session_id": "a__b-12#2",
            "model": "m",
            "namespace": "team",
            "task": "swe",
            "source": "here",
            "agent": "ignored",
            "tools": [{"type": "function"}],
            "messages": [
                SYSTEM,
                USER,
                {"role": "assistant", "content": "Look.", "tool_calls": [{"name": "sh", "arguments": ODD}]},
                {"role": "tool", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": None, "tool_calls": [call("sh", ODD)], "token_ids": [1, 2]},
                {"role": "assistant", "content": "Hello!", "model_output": False},
            ],
        }
    ),
    "suffixspec JSONL",
    {"a__b-12#2": [("Look.", [("sh", ODD)]), ("", [("sh", ODD)])]},
    "m",
    ["You act.", "ab", "Hello!"],
)

_SWE_HISTORY = [
    {"role": "system", "content": "You act.", "agent": "primary"},
    {"role": "user", "content": "A demonstration.", "is_demo": True, "agent": "primary"},
    {"role": "assistant", "content": "I demonstrate.", "is_demo": True, "agent": "primary"},
    {"role": "user", "content": "Fix it.", "agent": "primary"},
    {"role": "assistant", "content": "Look.\n```\nls\n```", "thought": "Look.", "action": "ls\n"},
    {"role": "user", "content": "a.py"},
    {"role": "assistant", "content": "Done.\n```\nsubmit\n```", "thought": "Done.", "action": "submit\n"},
]
_SWE_OUTPUTS = [("Look.\n```\nls\n```", []), ("Done.\n```\nsubmit\n```", [])]
SWE_TEXT = Sample(
    json.dumps({"environment": "e", "trajectory": [], "history": _SWE_HISTORY, "info": {}}, indent=2),
    "SWE-agent .traj",
    {"log": _SWE_OUTPUTS},
    context=["A demonstration.", "I demonstrate.", "a.py"],
)
SWE_HISTORY_AS_TEXT = Sample(
    json.dumps({"trajectory": [], "history": json.dumps(_SWE_HISTORY), "instance_id": "o__r-5"}),
    "SWE-agent .traj",
    {"o__r-5": _SWE_OUTPUTS},
)
SWE_FUNCTIONS = Sample(
    json.dumps(
        {
            "environment": "main",
            "trajectory": [{"action": "ls", "response": "Look."}],
            "history": [
                {
                    "role": "system",
                    "content": [{"type": "text", "text": "You act."}],
                    "message_type": "system_prompt",
                },
                {"role": "user", "content": [{"type": "text", "text": "Fix it.", "cache_control": {}}]},
                {
                    "role": "assistant",
                    "content": "Look.",
                    "thought": "Look.",
                    "action": "ls",
                    "tool_calls": [call("bash", ODD, "t1")],
                    "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "x"}],
                },
                {"role": "tool", "content": "a.py", "tool_call_ids": ["t1"]},
            ],
            "replay_config": json.dumps({"agent": {"model": {"name": "gpt-x"}}}),
        }
    ),
    "SWE-agent .traj",
    {"log": [("Look.", [("bash", ODD)])]},
    "gpt-x",
)
SWE_ATTEMPTS = Sample(
    json.dumps(
        {"attempts": [{"history": _SWE_HISTORY}, {"history": _SWE_HISTORY}], "trajectory": [], "history": []}
    ),
    "SWE-agent .traj",
    {"log": _SWE_OUTPUTS, "log#2": _SWE_OUTPUTS},
)

MINI_V1 = Sample(
    json.dumps(
        {
            "info": {"mini_version": "1.1", "config": {"model": {"model_name": "gem"}}},
            "messages": [
                SYSTEM,
                USER,
                {
                    "role": "assistant",
                    "content": "THOUGHT: a\n```bash\nls\n```",
                    "extra": {"response": {"choices": [{"message": {"content": "x", "reasoning": "Deep."}}]}},
                },
                {"role": "user", "content": "<returncode>0</returncode>"},
            ],
            "trajectory_format": "mini-swe-agent-1",
            "instance_id": "o__r-7",
        },
        indent=1,
    ),
    "mini-swe-agent .traj.json",
    {"o__r-7": [("THOUGHT: a\n```bash\nls\n```", [])]},
    "gem",
)
MINI_V2 = Sample(
    json.dumps(
        {
            "info": {"mini_version": "2.0", "config": {"agent": {}, "model": {"model_name": "gem"}}},
            "messages": [
                SYSTEM,
                USER,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [call("bash", ODD, "b1")],
                    "extra": {"actions": [{"command": "ls"}], "response": {}},
                },
                {"role": "tool", "tool_call_id": "b1", "content": "a.py", "extra": {"returncode": 0}},
                {"role": "exit", "content": "never shown", "extra": {"exit_status": "Submitted"}},
            ],
            "trajectory_format": "mini-swe-agent-1.1",
        }
    ),
    "mini-swe-agent .traj.json",
    {"log": [("", [("bash", ODD)])]},
    "gem",
    ["a.py"],
)
MINI_RESPONSES = Sample(
    json.dumps(
        {
            "info": {"config": {}},
            "messages": [
                SYSTEM,
                USER,
                {
                    "object": "response",
                    "output": [
                        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "no output"}]},
                        {
                            "type": "message",
                            "role": "assistant",
                            "content": [{"type": "output_text", "text": "Look."}],
                        },
                        {"type": "function_call", "name": "bash", "arguments": ODD, "call_id": "r1"},
                    ],
                },
                {"type": "function_call_output", "call_id": "r1", "output": "a.py"},
            ],
            "trajectory_format": "mini-swe-agent-1.1",
        }
    ),
    "mini-swe-agent .traj.json",
    {"log": [("Look.", [("bash", ODD)])]},
    context=["a.py"],
)
MINI_LIST = Sample(
    json.dumps([SYSTEM, USER, {"role": "assistant", "content": "Hi."}], indent=2),
    "mini-swe-agent .traj.json",
    {"log": [("Hi.", [])]},
)

OPENHANDS_OUTPUT = Sample(
    _lines(
        {
            "instance_id": "o__r-9",
            "instruction": "Fix it.",
            "metadata": {"llm_config": {"model": "qwen"}},
            "history": [
                {"action": "message", "content": "Fix it."},
                {"action": "run", "command": "ls", "thought": "Look.", "keep_prompt": True},
                {"observation": "run", "content": "a.py", "command": "ls", "exit_code": 0},
                {"action": "run_ipython", "code": "print(1)", "thought": ""},
                {"observation": "run_ipython", "content": "1", "code": "print(1)"},
                {"action": "message", "content": "Shall I?"},
                {"action": "message", "content": "Go on."},
                {"action": "edit", "path": "a.py", "content": "x = 1", "thought": "Edit.", "timeout": 5},
                {"observation": "edit", "content": "ok"},
                {"action": "finish", "outputs": {}, "thought": "Done."},
            ],
            "metrics": {},
        },
        {
            "instance_id": "o__r-10",
            "test_result": {},
            "history": [
                [
                    {"action": "message", "source": "user", "args": {"content": "Fix."}},
                    {"observation": "null"},
                ],
                [
                    {"action": "run", "source": "agent", "args": {"command": "ls", "thought": "Look."}},
                    {"observation": "run", "content": "b.py", "extras": {}},
                ],
            ],
        },
    ),
    "OpenHands output or events",
    {
        "o__r-9": [
            ("Look.\n<execute_bash>\nls\n</execute_bash>", []),
            ("<execute_ipython>\nprint(1)\n</execute_ipython>", []),
            ("Shall I?", []),
            ("Edit.", [("edit", '{"path": "a.py", "content": "x = 1"}')]),
            ("Done.", []),
        ],
        "o__r-10": [("Look.\n<execute_bash>\nls\n</execute_bash>", [])],
    },
    "qwen",
    ["Fix it.", "a.py", "Go on."],
)


def _openhands_meta(call_id: str, response: dict[str, Any]) -> dict[str, Any]:
    return {"function_name": "bash", "tool_call_id": call_id, "model_response": response}


_TWO_CALLS = {
    "id": "resp1",
    "model": "claude",
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": "Look.",
                "tool_calls": [call("bash", ODD, "t1"), call("bash", "{}", "t2")],
            }
        }
    ],
}
OPENHANDS_EVENTS = Sample(
    json.dumps(
        [
            {
                "id": 0,
                "source": "agent",
                "action": "system",
                "args": {"content": "You act.", "tools": [{"a": 1}]},
            },
            {"id": 1, "source": "user", "action": "message", "args": {"content": "Fix it."}},
            {"id": 2, "source": "environment", "observation": "agent_state_changed", "content": "no"},
            {
                "id": 3,
                "source": "agent",
                "action": "run",
                "args": {"command": "ls", "thought": "Look."},
                "tool_call_metadata": _openhands_meta("t1", _TWO_CALLS),
            },
            {
                "id": 4,
                "source": "agent",
                "observation": "edit",
                "content": "a diff",
                "extras": {"formatted_output_and_error": "edited"},
                "tool_call_metadata": _openhands_meta("t1", _TWO_CALLS),
            },
            {
                "id": 5,
                "source": "agent",
                "action": "run",
                "args": {"command": "x"},
                "tool_call_metadata": _openhands_meta("t2", _TWO_CALLS),
            },
            {
                "id": 6,
                "source": "agent",
                "observation": "run",
                "content": "b.py",
                "tool_call_metadata": _openhands_meta("t2", _TWO_CALLS),
            },
            {
                "id": 7,
                "source": "agent",
                "action": "condensation",
                "args": {"forgotten_event_ids": [3, 4, 5, 6], "summary": "Sum.", "summary_offset": 2},
            },
            {"id": 8, "source": "agent", "action": "message", "args": {"content": "All done."}},
        ]
    ),
    "OpenHands output or events",
    {"log": [("Look.", [("bash", ODD), ("bash", "{}")])], "log#2": [("All done.", [])]},
    "claude",
    ["You act.", "Fix it.", "edited", "b.py"],
)
OPENHANDS_V1 = Sample(
    json.dumps(
        [
            {
                "kind": "SystemPromptEvent",
                "source": "agent",
                "id": "e0",
                "system_prompt": {"type": "text", "text": "You act."},
                "tools": [{"name": "bash"}],
            },
            {
                "kind": "MessageEvent",
                "source": "user",
                "id": "e1",
                "llm_message": {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
            },
            {
                "kind": "ActionEvent",
                "source": "agent",
                "id": "e2",
                "thought": [{"type": "text", "text": "Look."}],
                "reasoning_content": "Hm.",
                "action": {"kind": "X"},
                "tool_name": "bash",
                "tool_call_id": "t1",
                "tool_call": {"id": "t1", "name": "bash", "arguments": ODD},
                "llm_response_id": "r1",
            },
            {
                "kind": "ActionEvent",
                "source": "agent",
                "id": "e3",
                "thought": [],
                "action": None,
                "tool_name": "bash",
                "tool_call_id": "t2",
                "tool_call": {"id": "t2", "name": "bash", "arguments": "{}"},
                "llm_response_id": "r1",
            },
            {
                "kind": "ObservationEvent",
                "source": "environment",
                "id": "e4",
                "tool_name": "bash",
                "tool_call_id": "t1",
                "observation": {"kind": "Y", "content": [{"type": "text", "text": "a.py"}]},
            },
            {
                "kind": "AgentErrorEvent",
                "source": "agent",
                "id": "e5",
                "tool_name": "bash",
                "tool_call_id": "t2",
                "error": "no such thing",
            },
            {
                "kind": "MessageEvent",
                "source": "agent",
                "id": "e6",
                "llm_message": {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
            },
        ]
    ),
    "OpenHands output or events",
    {"log": [("Look.", [("bash", ODD), ("bash", "{}")]), ("Done.", [])]},
    context=["You act.", "Fix it.", "a.py", "no such thing"],
)
OPENHANDS_DEVAI = Sample(
    json.dumps(
        [
            {
                "step": 0,
                "user_message": "Build it.",
                "agent": {"thought": "Look.", "action": "Running command: ls\npwd"},
                "environment": "a.py",
                "step_usage": {"model": "gpt-y"},
            },
            {
                "step": 1,
                "user_message": None,
                "agent": {"thought": "Run.", "action": "Running Python code interactively: print(1)"},
                "environment": "1",
            },
            {
                "step": 2,
                "user_message": None,
                "agent": {"thought": "Done.", "action": None},
                "environment": None,
            },
        ]
    ),
    "OpenHands output or events",
    {
        "log": [
            ("Look.\n<execute_bash>\nls\npwd\n</execute_bash>", []),
            ("Run.\n<execute_ipython>\nprint(1)\n</execute_ipython>", []),
            ("Done.", []),
        ]
    },
    "gpt-y",
    ["Build it.", "a.py"],
)

OPENAI_CHAT = Sample(
    _lines(
        {"messages": [SYSTEM, USER, {"role": "assistant", "content": None, "tool_calls": [call("f", ODD)]}]},
        {
            "messages": [
                USER,
                {"role": "assistant", "content": None, "function_call": {"name": "g", "arguments": ODD}},
                {"role": "function", "name": "g", "content": "4"},
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "It is"}, {"type": "text", "text": " 4."}],
                },
            ]
        },
    ),
    "OpenAI chat JSONL",
    {"log#1": [("", [("f", ODD)])], "log#2": [("", [("g", ODD)]), ("It is 4.", [])]},
)


def exchange(messages: list[dict[str, Any]], reply: dict[str, Any] | None, **extra: Any) -> dict[str, Any]:
    """Build a line of a request/response log."""
    response: dict[str, Any] = {"error": {"message": "overloaded"}}
    if reply is not None:
        response = {"id": "x", "model": "gpt-z-1", "choices": [{"index": 0, "message": reply}]}
    return {"request": {"model": "gpt-z", "messages": messages, **extra}, "response": response}


_REPLY_1 = {"role": "assistant", "content": " Look. ", "tool_calls": [call("sh", ODD)]}
# What a client sends back: stripped, null for empty, arguments serialised anew.
_SENT_1 = {"role": "assistant", "content": "Look.", "tool_calls": [call("sh", '{"cmd": "ls -l", "n": 1.0}')]}
_TOOL_1 = {"role": "tool", "content": "a.py", "tool_call_id": "c1"}
_OTHER = [{"role": "user", "content": "Give this chat a title."}]
OPENAI_LOG = Sample(
    _lines(
        exchange([SYSTEM, USER], _REPLY_1, tools=[{"type": "function"}]),
        exchange(_OTHER, {"role": "assistant", "content": "A title"}),
        exchange([SYSTEM, USER, _SENT_1, _TOOL_1], None),
        exchange([SYSTEM, USER, _SENT_1, _TOOL_1], {"role": "assistant", "content": "Done."}),
        exchange([SYSTEM, USER], {"role": "assistant", "content": "Another try."}),
    ),
    "OpenAI request/response log",
    {
        "log": [(" Look. ", [("sh", ODD)]), ("Done.", [])],
        "log#2": [("A title", [])],
        "log#3": [("Another try.", [])],
    },
    "gpt-z",
    ["You act.", "a.py"],
)

SHAREGPT = Sample(
    json.dumps(
        [
            {
                "id": "s0",
                "conversations": [
                    {"from": "system", "value": "You act."},
                    {"from": "human", "value": "Hi."},
                    {"from": "gpt", "value": "Hello é."},
                    {"from": "tool", "value": "42"},
                ],
            },
            {"conversations": [{"from": "user", "value": "?"}, {"from": "assistant", "value": "!"}]},
        ],
        indent=2,
    ),
    "ShareGPT",
    {"s0": [("Hello é.", [])], "log#2": [("!", [])]},
    context=["You act.", "Hi.", "42"],
)

TAU = Sample(
    json.dumps(
        [
            {
                "task_id": 3,
                "trial": 1,
                "reward": 0.0,
                "info": {},
                "traj": [
                    SYSTEM,
                    USER,
                    {"role": "assistant", "content": None, "tool_calls": [call("book", ODD)]},
                    {"role": "tool", "tool_call_id": "c1", "name": "book", "content": "ok"},
                    {"role": "assistant", "content": "Booked."},
                ],
            },
            {"task_id": 4, "trial": 0, "reward": 0.0, "info": {"error": "timeout"}, "traj": []},
        ],
        indent=2,
    ),
    "tau-bench results",
    {"log/task3/trial1": [("", [("book", ODD)]), ("Booked.", [])]},
    context=["ok"],
)
TAU2 = Sample(
    json.dumps(
        {
            "info": {"agent_info": {"llm": "gpt-w"}, "environment_info": {"policy": "The policy."}},
            "tasks": [],
            "simulations": [
                {
                    "id": "u-1",
                    "task_id": "7",
                    "trial": 0,
                    "termination_reason": "user_stop",
                    "messages": [
                        {"role": "assistant", "content": "Hi! How can I help you today?", "tool_calls": None},
                        {"role": "user", "content": "Book.", "tool_calls": None},
                        {
                            "role": "user",
                            "content": None,
                            "tool_calls": [
                                {"id": "u1", "name": "phone", "arguments": {}, "requestor": "user"}
                            ],
                        },
                        {"role": "tool", "id": "u1", "content": "the user's own", "requestor": "user"},
                        {
                            "role": "assistant",
                            "content": None,
                            "tool_calls": [
                                {
                                    "id": "a1",
                                    "name": "book",
                                    "arguments": {"z": 1, "a": "é"},
                                    "requestor": "assistant",
                                }
                            ],
                        },
                        {"role": "tool", "id": "a1", "content": "ok", "requestor": "assistant"},
                        {
                            "role": "assistant",
                            "content": "One more.",
                            "tool_calls": [
                                {
                                    "id": "a2",
                                    "name": "sh",
                                    "arguments": {"cmd": "ls -l", "n": 1.0},
                                    "requestor": "assistant",
                                }
                            ],
                            "raw_data": {"message": {"tool_calls": [call("sh", ODD, "a2")]}},
                        },
                    ],
                }
            ],
        }
    ),
    "tau2-bench results",
    {"log/task7/trial0": [("", [("book", '{"z": 1, "a": "é"}')]), ("One more.", [("sh", ODD)])]},
    "gpt-w",
    ["The policy.", "Hi! How can I help you today?", "ok"],
)


def claude(kind: str, uuid: str, parent: str | None, content: Any, **extra: Any) -> dict[str, Any]:
    """Build a Claude Code record; ``message_id`` and ``model`` go into its message."""
    message: dict[str, Any] = {"role": kind, "content": content}
    for key, name in (("message_id", "id"), ("model", "model")):
        if key in extra:
            message[name] = extra.pop(key)
    record = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "S", "isSidechain": False}
    return record | {"message": message} | extra


CLAUDE = Sample(
    _lines(
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        {"type": "summary", "summary": "s", "leafUuid": "x"},
        claude("user", "1", None, "Fix it."),
        claude(
            "assistant",
            "2",
            "1",
            [{"type": "thinking", "thinking": "Hm.", "signature": "s"}],
            message_id="m1",
            model="claude-x",
        ),
        claude("assistant", "3", "2", [{"type": "text", "text": "Look."}], message_id="m1", model="claude-x"),
        claude(
            "assistant",
            "4",
            "3",
            [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"z": 1, "a": "é"}}],
            message_id="m1",
            model="claude-x",
        ),
        claude("user", "s1", None, "Search.", isSidechain=True),
        claude(
            "assistant", "s2", "s1", [{"type": "text", "text": "Found."}], isSidechain=True, message_id="q1"
        ),
        claude(
            "user",
            "5",
            "4",
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "a.py"}, {"type": "image"}],
                }
            ],
        ),
        claude(
            "assistant",
            "6",
            "5",
            [{"type": "tool_use", "id": "t2", "name": "Read", "input": {}}],
            message_id="m1",
            model="claude-x",
        ),
        claude(
            "assistant",
            "7",
            "6",
            [{"type": "text", "text": "API error"}],
            message_id="e",
            model="<synthetic>",
        ),
        claude("assistant", "8", "7", [{"type": "text", "text": "Done."}], message_id="m2", model="claude-x"),
        {"type": "attachment", "uuid": "8b", "parentUuid": "8", "sessionId": "S"},
        claude("user", "9", "8b", [{"type": "text", "text": "Thanks."}]),
        claude("assistant", "10", "9", [{"type": "text", "text": "Bye."}], message_id="m3", model="claude-x"),
        claude("user", "11", "8", [{"type": "text", "text": "No, back."}]),
        claude(
            "assistant", "12", "11", [{"type": "text", "text": "Back."}], message_id="m4", model="claude-x"
        ),
        claude("user", "13", None, "The summary.", isCompactSummary=True),
        claude(
            "assistant", "14", "13", [{"type": "text", "text": "Fresh."}], message_id="m5", model="claude-x"
        ),
    ),
    "Claude Code log",
    {
        "S": [
            ("Look.", [("Bash", '{"z": 1, "a": "é"}'), ("Read", "{}")]),
            ("Done.", []),
            ("Bye.", []),
        ],
        "S#2": [("Back.", [])],
        "S#3": [("Fresh.", [])],
        "S/sidechain-s1": [("Found.", [])],
    },
    "claude-x",
    ["Fix it.", "a.py", "API error", "Thanks."],
)


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    """Build a Codex record."""
    return {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload}


def codex_text(role: str, text: str) -> dict[str, Any]:
    """Build a Codex message."""
    kind = "output_text" if role == "assistant" else "input_text"
    return codex("response_item", type="message", role=role, content=[{"type": kind, "text": text}])


CODEX = Sample(
    _lines(
        codex("session_meta", id="R", base_instructions={"text": "You act."}),
        codex("event_msg", type="task_started"),
        codex_text("developer", "Rules."),
        codex_text("user", "Fix it."),
        codex("turn_context", model="gpt-c"),
        codex("event_msg", type="agent_message", message="a copy"),
        codex(
            "response_item", type="reasoning", summary=[{"type": "summary_text", "text": "no"}], content=None
        ),
        codex_text("assistant", "Look."),
        codex("response_item", type="function_call", name="shell", arguments=ODD, call_id="k1"),
        codex(
            "response_item", type="custom_tool_call", name="apply_patch", input="*** Begin\n", call_id="k2"
        ),
        codex("response_item", type="function_call_output", call_id="k1", output="a.py"),
        codex("response_item", type="custom_tool_call_output", call_id="k2", output="patched"),
        codex_text("assistant", "Done."),
        codex("event_msg", type="task_started"),
        codex_text("user", "More."),
        codex_text("assistant", "Wrong."),
        codex("event_msg", type="thread_rolled_back", num_turns=1),
        codex_text("user", "Else."),
        codex_text("assistant", "Right."),
        codex("compacted", message="The summary."),
        codex_text("user", "On."),
        codex_text("assistant", "Fresh."),
    ),
    "Codex rollout",
    {
        "R": [
            ("Look.", [("shell", ODD), ("apply_patch", "*** Begin\n")]),
            ("Done.", []),
            ("Wrong.", []),
        ],
        "R#2": [("Right.", [])],
        "R#3": [("Fresh.", [])],
    },
    "gpt-c",
    ["You act.", "Rules.", "Fix it.", "a.py", "patched"],
)
CODEX_BARE = Sample(
    _lines(
        {"id": "R", "timestamp": "2025-01-01T00:00:00Z", "instructions": "You act."},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
        {"type": "function_call", "name": "shell", "arguments": ODD, "call_id": "k1"},
        {"type": "function_call_output", "call_id": "k1", "output": "a.py"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ),
    "Codex rollout",
    {"R": [("", [("shell", ODD)]), ("Done.", [])]},
    context=["You act.", "Fix it.", "a.py"],
)


def pi(kind: str, entry: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    """Build an entry of a pi session."""
    return {"type": kind, "id": entry, "parentId": parent} | fields


def pi_text(role: str, text: str, **fields: Any) -> dict[str, Any]:
    """Build a message of a pi session."""
    return {"role": role, "content": [{"type": "text", "text": text}]} | fields


PI = Sample(
    _lines(
        {"type": "session", "id": "P", "cwd": "/x", "modelId": "head-model"},
        pi("message", "1", None, message=pi_text("user", "Fix it.")),
        pi(
            "message",
            "1b",
            "1",
            message={"role": "assistant", "content": [], "stopReason": "aborted", "model": "n"},
        ),
        pi("model_change", "1c", "1b", modelId="claude-p"),
        pi(
            "message",
            "2",
            "1c",
            message={
                "role": "assistant",
                "model": "claude-p",
                "content": [
                    {"type": "thinking", "thinking": "Hm."},
                    {"type": "text", "text": "Look."},
                    {"type": "toolCall", "id": "t1", "name": "bash", "arguments": {"z": 1, "a": "é"}},
                ],
            },
        ),
        pi("message", "3", "2", message=pi_text("toolResult", "a.py", toolCallId="t1", toolName="bash")),
        pi("message", "4", "3", message=pi_text("assistant", "Done.", model="claude-p")),
        pi("message", "5", "4", message={"role": "bashExecution", "command": "make", "output": "built"}),
        pi("message", "6", "5", message=pi_text("assistant", "Good.")),
        pi("message", "7", "4", message=pi_text("user", "No, back.")),
        pi("message", "8", "7", message=pi_text("assistant", "Back.")),
        pi("compaction", "9", "8", summary="The summary.", firstKeptEntryId="7"),
        pi("message", "10", "9", message=pi_text("user", "On.")),
        pi("message", "11", "10", message=pi_text("assistant", "Fresh.")),
    ),
    "pi session",
    {
        "P": [("Look.", [("bash", '{"z": 1, "a": "é"}')]), ("Done.", []), ("Good.", [])],
        "P#2": [("Back.", [])],
        "P#3": [("Fresh.", [])],
    },
    "claude-p",
    ["Fix it.", "a.py", "Ran `make`\n```\nbuilt\n```"],
)

AIDER = Sample(
    "\n# aider chat started at 2025-01-01 10:00:00\n\n> Aider v0.80  \n> Model: gpt-a with diff edit format  \n\n"
    "#### Fix it.  \n#### > a quotation  \n####  \n#### end  \n"
    "> Tokens: 2.4k sent, 85 received. Cost: $0.01 message.  \n\n"
    "#### A heading of the model's\n\n> its quotation\n\na.py\n```python\n<<<<<<< SEARCH\nx  = 1\n=======\n"
    "x = 2\n>>>>>>> REPLACE\n```\n\n"
    "> Applied edit to a.py  \n> a long\nline of output  \n>  \n> 12 prompt tokens, 3 completion tokens  \n\n"
    "Done.\n\n"
    "# aider chat started at 2025-01-01 11:00:00\n\n> Aider v0.80  \n\n"
    "# aider chat started at 2025-01-01 12:00:00\n\n> Models: claude-a with diff  \n\n#### Hi.  \n\nHello.\n\n",
    "aider chat history",
    {
        "log": [
            (
                "#### A heading of the model's\n\n> its quotation\n\na.py\n```python\n<<<<<<< SEARCH\nx  = 1\n"
                "=======\nx = 2\n>>>>>>> REPLACE\n```",
                [],
            ),
            ("Done.", []),
        ],
        "log#3": [("Hello.", [])],
    },
    "gpt-a",
    ["Fix it.\n> a quotation\n\nend", "Applied edit to a.py\n> a long\nline of output  \n"],
)

_ATIF_AGENT = {"name": "a", "version": "1", "model_name": "gpt-t", "tool_definitions": [{"type": "function"}]}
ATIF = Sample(
    json.dumps(
        {
            "schema_version": "ATIF-v1.8",
            "session_id": "T",
            "agent": _ATIF_AGENT,
            "steps": [
                {"step_id": 1, "source": "system", "message": "You act."},
                {
                    "step_id": 2,
                    "source": "user",
                    "message": [
                        {"type": "text", "text": "Fix it."},
                        {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
                    ],
                },
                {"step_id": 3, "source": "agent", "message": "Copied.", "is_copied_context": True},
                {
                    "step_id": 4,
                    "source": "agent",
                    "message": "Look.",
                    "reasoning_content": "Hm.",
                    "tool_calls": [
                        {"tool_call_id": "t1", "function_name": "bash", "arguments": {"z": 1, "a": "é"}}
                    ],
                    "observation": {
                        "results": [
                            {"source_call_id": "t1", "content": "a.py"},
                            {"content": "a note of the environment"},
                        ]
                    },
                    "metrics": {"prompt_token_ids": [1, 2, 3], "completion_token_ids": [7, 8, 9]},
                },
                {
                    "step_id": 5,
                    "source": "agent",
                    "message": "",
                    "llm_call_count": 0,
                    "tool_calls": [{"tool_call_id": "t2", "function_name": "lint", "arguments": {}}],
                    "observation": {"results": [{"source_call_id": "t2", "content": "clean"}]},
                },
                {
                    "step_id": 6,
                    "source": "agent",
                    "message": "Done.",
                    "llm_call_count": 2,
                    "metrics": {"completion_token_ids": [1, 2]},
                },
            ],
            "subagent_trajectories": [
                {
                    "schema_version": "ATIF-v1.8",
                    "trajectory_id": "sub",
                    "agent": {"name": "b", "version": "1", "model_name": "small"},
                    "steps": [
                        {"step_id": 1, "source": "user", "message": "Search."},
                        {"step_id": 2, "source": "agent", "message": "Found."},
                    ],
                }
            ],
        },
        indent=2,
    ),
    "ATIF",
    {
        "T": [("Look.", [("bash", '{"z": 1, "a": "é"}')]), ("Done.", [])],
        "T/sub": [("Found.", [])],
    },
    "gpt-t",
    ["You act.", "Fix it.", "Copied.", "a.py", "a note of the environment", "clean"],
)

SAMPLES = {name.lower(): value for name, value in list(globals().items()) if isinstance(value, Sample)}
"""Every sample by name."""
