"""Every known format: recognised by content, and read verbatim."""

import gzip
import json
from pathlib import Path

import pytest
import trace_samples
from trace_samples import SAMPLES, Sample, exchange

from suffixspec.errors import InputError
from suffixspec.trace import TraceSession, read_sessions, write_sessions
from suffixspec.trace.reader import TraceFile


def _read(folder: Path, text: str, name: str = "log.txt", **options) -> list[TraceSession]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return list(read_sessions(path, **options))


def _outputs(session: TraceSession) -> list[tuple[str, list[tuple[str, str]]]]:
    return [
        (message.content, [(call.name, call.arguments) for call in message.tool_calls])
        for message in session.messages
        if message.is_output
    ]


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
class TestEveryFormat:
    """What holds for every sample."""

    def test_is_read_verbatim(self, sample: Sample, tmp_path: Path) -> None:
        """Each session holds exactly what the model wrote, texts and argument strings, under its id."""
        sessions = _read(tmp_path, sample.text)

        assert sample.outputs == {session.session_id: _outputs(session) for session in sessions}

    def test_keeps_the_context(self, sample: Sample, tmp_path: Path) -> None:
        """What the model was shown is in the session, and is not taken for its output."""
        first = _read(tmp_path, sample.text)[0]

        shown = [message.content for message in first.messages if not message.is_output]
        assert [text for text in sample.context if text not in shown] == []
        assert sample.model == first.model

    def test_is_told_by_content(self, sample: Sample, tmp_path: Path) -> None:
        """Neither the file's name nor its compression matters."""
        path = tmp_path / "photo.png"
        path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + sample.text.encode()))
        trace = TraceFile(str(path))
        sessions = list(trace.sessions())

        assert sample.title == trace.format
        assert len(sample.outputs) == len(sessions)
        assert {str(path)} == {session.path for session in sessions}
        assert all(session.line >= 1 for session in sessions)

    def test_survives_the_native_format(self, sample: Sample, tmp_path: Path) -> None:
        """Written in the native format and read again, the sessions are equal."""
        sessions = _read(tmp_path, sample.text)
        write_sessions(tmp_path / "out.jsonl", sessions)

        assert sessions == list(read_sessions(tmp_path / "out.jsonl"))


@pytest.mark.parametrize(
    "name", ["swe_functions", "mini_v1", "mini_v2", "mini_list", "openhands_events", "atif"]
)
def test_documents_may_be_lines(name: str, tmp_path: Path) -> None:
    """A file with a document a line holds as many runs, however it ends."""
    line = json.dumps(json.loads(SAMPLES[name].text))
    sessions = _read(tmp_path, f"{line}\r\n\n{line}")

    assert 2 * list(SAMPLES[name].outputs.values()) == [_outputs(session) for session in sessions]


def test_lists_of_conversations_are_split(tmp_path: Path) -> None:
    """A JSON list of conversations reads as the lines do."""
    records = [json.loads(line) for line in SAMPLES["openai_chat"].text.splitlines()]
    sessions = _read(tmp_path, json.dumps(records, indent=1))

    assert SAMPLES["openai_chat"].outputs == {session.session_id: _outputs(session) for session in sessions}


def test_reasoning_is_kept(tmp_path: Path) -> None:
    """Reasoning text is read where a format has it, and a summary by another model is not reasoning."""
    found = {}
    for name in (
        "swe_functions",
        "mini_v1",
        "mini_responses",
        "openhands_v1",
        "claude",
        "codex",
        "pi",
        "atif",
    ):
        first = _read(tmp_path, SAMPLES[name].text)[0]
        found[name] = next(message.reasoning for message in first.messages if message.is_output)

    assert found == {
        "swe_functions": "Hm.",
        "mini_v1": "Deep.",
        "mini_responses": None,
        "openhands_v1": "Hm.",
        "claude": "Hm.",
        "codex": None,
        "pi": "Hm.",
        "atif": "Hm.",
    }


def test_tool_answers_name_their_call(tmp_path: Path) -> None:
    """A tool's message carries the id, and where it can be known the name, of the call that it answers."""
    found = {}
    for name in ("swe_functions", "mini_v2", "openhands_events", "claude", "codex", "pi", "atif", "tau2"):
        first = _read(tmp_path, SAMPLES[name].text)[0]
        tool = next(message for message in first.messages if message.role == "tool")
        found[name] = (tool.tool_call_id, tool.name)

    assert found == {
        "swe_functions": ("t1", None),
        "mini_v2": ("b1", None),
        "openhands_events": ("t1", "bash"),
        "claude": ("t1", "Bash"),
        "codex": ("k1", "shell"),
        "pi": ("t1", "bash"),
        "atif": ("t1", "bash"),
        "tau2": ("a1", None),
    }


def test_tool_definitions_are_kept(tmp_path: Path) -> None:
    """Formats with tool definitions hand them over."""
    for name in ("native", "openai_log", "openhands_events", "openhands_v1", "atif"):
        assert _read(tmp_path, SAMPLES[name].text)[0].tools, name


def test_unshown_text_is_left_out(tmp_path: Path) -> None:
    """What the model never saw is nowhere: how a run ended, a simulated user's tools, banners and counters."""
    for name, texts in {
        "mini_v2": ["never shown"],
        "tau2": ["the user's own"],
        "aider": ["Aider v0.80", "prompt tokens", "Tokens:"],
        "codex": ["a copy"],
        "openhands_events": ["a diff"],
    }.items():
        whole = "\n".join(
            message.content for session in _read(tmp_path, SAMPLES[name].text) for message in session.messages
        )
        assert [text for text in texts if text in whole] == [], name


def test_rewound_parts_keep_the_prefix_as_context(tmp_path: Path) -> None:
    """A part after a rewind begins with what was kept, and none of that counts as output again."""
    for name, dropped in (("claude", "Bye."), ("pi", "Good."), ("codex", "Wrong.")):
        part = _read(tmp_path, SAMPLES[name].text)[1]
        texts = [message.content for message in part.messages]

        assert dropped not in texts, name
        assert "Done." in texts, name
        assert part.turns == 1, name


def test_compacted_parts_begin_with_the_summary(tmp_path: Path) -> None:
    """After a compaction the summary stands for what was dropped; kept messages are context."""
    texts = {
        name: [message.content for message in _read(tmp_path, SAMPLES[name].text)[2].messages]
        for name in ("claude", "pi", "codex")
    }

    assert texts["claude"] == ["The summary.", "Fresh."]
    assert texts["pi"] == ["The summary.", "No, back.", "Back.", "On.", "Fresh."]
    assert texts["codex"] == ["You act.", "The summary.", "On.", "Fresh."]
    condensed = _read(tmp_path, SAMPLES["openhands_events"].text)[1]
    assert [message.content for message in condensed.messages] == ["You act.", "Fix it.", "Sum.", "All done."]


def test_atif_token_ids_belong_to_one_call(tmp_path: Path) -> None:
    """The ids of a completion are kept; those of a step with two calls cannot be told apart and are not."""
    outputs = [message for message in _read(tmp_path, SAMPLES["atif"].text)[0].messages if message.is_output]

    assert [message.token_ids for message in outputs] == [(7, 8, 9), None]


def test_atif_of_another_major_version_is_refused(tmp_path: Path) -> None:
    """Version 2 would mean something else: it is an error, not a guess."""
    text = SAMPLES["atif"].text.replace('"ATIF-v1.8"', '"ATIF-v2.0"', 1)

    with pytest.raises(InputError, match=r"log\.txt:1: expected schema_version to be ATIF-v1\.0 or a later"):
        _read(tmp_path, text)


class TestRequestLogs:
    """Logs of requests with their responses."""

    def test_calls_are_joined_by_their_messages(self, tmp_path: Path) -> None:
        """Interleaved conversations come apart, and each call adds only what is new."""
        one, two = ([{"role": "user", "content": text}] for text in ("one", "two"))
        replies = [{"role": "assistant", "content": text} for text in ("r1", "r2", "r3", "r4")]
        lines = [exchange(one, replies[0]), exchange(two, replies[1])]
        one = [*one, replies[0], {"role": "user", "content": "on"}]
        two = [*two, replies[1], {"role": "user", "content": "on"}]
        lines += [exchange(two, replies[2]), exchange(one, replies[3])]
        sessions = _read(tmp_path, "\n".join(map(json.dumps, lines)))

        assert [[message.content for message in session.messages] for session in sessions] == [
            ["one", "r1", "on", "r4"],
            ["two", "r2", "on", "r3"],
        ]

    def test_a_state_is_continued_once(self, tmp_path: Path) -> None:
        """When two calls go on from the same reply, the second one is a session of its own."""
        ask, reply = {"role": "user", "content": "go"}, {"role": "assistant", "content": "r"}
        lines = [exchange([ask], reply)]
        for text in ("left", "right"):
            then = [ask, reply, {"role": "user", "content": text}]
            lines.append(exchange(then, {"role": "assistant", "content": f"r {text}"}))
        left, right = _read(tmp_path, "\n".join(map(json.dumps, lines)))

        assert _outputs(left) == [("r", []), ("r left", [])]
        assert _outputs(right) == [("r right", [])]
        assert [message.content for message in right.messages] == ["go", "r", "right", "r right"]

    def test_unrecorded_replies_are_context(self, tmp_path: Path) -> None:
        """An assistant message that only a request shows may be an example: it is not decoded."""
        few_shot = [{"role": "assistant", "content": "example"}, {"role": "user", "content": "go"}]
        (session,) = _read(tmp_path, json.dumps(exchange(few_shot, {"content": "out"})))

        assert _outputs(session) == [("out", [])]
        assert session.messages[0].content == "example"

    def test_other_envelopes(self, tmp_path: Path) -> None:
        """Bodies as JSON text, batch files, streamed chunks, Anthropic's form and flat records are understood."""
        messages = [{"role": "user", "content": "go"}]
        reply = {"choices": [{"message": {"role": "assistant", "content": "out"}}]}
        chunks = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "o"}}]},
            {"choices": [{"index": 0, "delta": {"content": "ut"}}]},
            {"choices": []},
        ]
        anthropic = {"role": "assistant", "model": "c", "content": [{"type": "text", "text": "out"}]}
        for record in (
            {"request": json.dumps({"messages": messages}), "response": json.dumps(reply)},
            {"request": {"body": {"messages": messages}}, "response": {"status_code": 200, "body": reply}},
            {"request": {"messages": messages}, "response": chunks},
            {"request": {"system": "You act.", "messages": messages}, "response": anthropic},
            {"messages": messages, "response": reply},
        ):
            (session,) = _read(tmp_path, json.dumps(record))
            assert _outputs(session) == [("out", [])], record

    def test_streamed_calls_are_joined(self, tmp_path: Path) -> None:
        """The pieces of a streamed tool call are put together verbatim."""
        pieces = [{"index": 0, "id": "k", "function": {"name": "sh", "arguments": '{"a"'}}]
        more = [{"index": 0, "function": {"arguments": ":  1}"}}]
        chunks = [{"choices": [{"delta": {"tool_calls": part}}]} for part in (pieces, more)]
        record = {"request": {"messages": [{"role": "user", "content": "go"}]}, "response": chunks}
        (session,) = _read(tmp_path, json.dumps(record))

        assert _outputs(session) == [("", [("sh", '{"a":  1}')])]

    def test_choices_are_sessions(self, tmp_path: Path) -> None:
        """Of several choices, the one that the next request takes up goes on; the others end there."""
        ask = [{"role": "user", "content": "go"}]
        two = [{"role": "assistant", "content": text} for text in ("left", "right")]
        first = {"request": {"messages": ask}, "response": {"choices": [{"message": part} for part in two]}}
        then = exchange([*ask, two[1], {"role": "user", "content": "on"}], {"content": "end"})
        left, right = _read(tmp_path, "\n".join(map(json.dumps, [first, then])))

        assert _outputs(left) == [("left", [])]
        assert _outputs(right) == [("right", []), ("end", [])]


class TestWhatIsLeftOut:
    """Records without conversation, runs without output."""

    def test_empty_runs_are_noted(self, tmp_path: Path) -> None:
        """A run without model output is left out with a note, as long as the file has others."""
        notes: list[InputError] = []
        sessions = _read(tmp_path, SAMPLES["tau"].text, on_note=notes.append)

        assert len(sessions) == 1
        assert [note.message for note in notes] == ["session 'log/task4/trial0' without model output"]

    def test_a_file_without_output_is_an_error(self, tmp_path: Path) -> None:
        """A file whose every run is empty says so."""
        text = json.dumps([{"task_id": 1, "traj": []}])

        with pytest.raises(
            InputError, match=r"log\.txt: expected at least one session with model output, got none"
        ):
            _read(tmp_path, text)

    def test_strange_records_of_a_log_are_noted(self, tmp_path: Path) -> None:
        """Logs hold records of many kinds: what is no conversation is left out, by line."""
        strange = ['"text"', "7", '{"silly": 1}', '{"type": "user", "uuid": "z", "message": "x"}']
        notes: list[InputError] = []
        sessions = _read(tmp_path, SAMPLES["claude"].text + "\n".join(strange), on_note=notes.append)

        assert len(SAMPLES["claude"].outputs) == len(sessions)
        lines = len(SAMPLES["claude"].text.splitlines())
        assert [lines + 1, lines + 2, lines + 3, lines + 4] == [note.line for note in notes]


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("swe_text", '"role": "user"', '"role": "bot"', "expected history[1].role to be one of"),
        ("mini_v2", '"content": "You act."', '"content": 5', "expected messages[0].content to be a string"),
        ("openhands_devai", '"Build it."', "7", "expected step[0].user_message to be a string"),
        ("tau", '"role": "user"', '"role": "bot"', "expected traj[1].role to be one of"),
        ("tau2", '"role": "user"', '"role": "bot"', "expected simulations[0].messages[1].role to be one of"),
        ("sharegpt", '"from": "gpt"', '"from": "martian"', "expected conversations[2].from to be one of"),
        ("openai_log", '"role": "user"', '"role": "bot"', "expected request.messages[1].role to be one of"),
        ("codex", '"output": "a.py"', '"output": 7', "expected payload.output to be a string"),
        ("pi", '"text": "Look."', '"text": 7', "expected message.content[1].text to be a string"),
        ("atif", '"source": "user"', '"source": "bot"', "expected steps[1].source to be one of"),
    ],
)
def test_malformed_fields_are_named(name: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    """A wrong value inside any format is an error that names the file, a line, and the field."""
    text = SAMPLES[name].text
    assert old in text
    with pytest.raises(InputError) as caught:
        _read(tmp_path, text.replace(old, new, 1))

    assert str(caught.value).startswith(f"{tmp_path / 'log.txt'}:")
    assert caught.value.line is not None
    assert message in str(caught.value)


def test_aider_without_trailing_blanks(tmp_path: Path) -> None:
    """A history whose trailing blanks an editor removed is still told apart by its prefixes."""
    head = "# aider chat started at 2025-01-01\n\n#### Hi.\n> Tokens: 1 sent, 2 received.\n\n"
    text = head + "Hello.\n\n> Applied.\n\nBye.\n"
    (session,) = _read(tmp_path, text)

    assert [message.content for message in session.messages] == ["Hi.", "Hello.", "Applied.", "Bye."]


def test_resumed_claude_logs_count_once(tmp_path: Path) -> None:
    """Records that a resumed session repeats are taken once; a continuation under another id is one session."""
    records = [
        trace_samples.claude("user", "1", None, "Hi."),
        trace_samples.claude("assistant", "2", "1", [{"type": "text", "text": "Hello."}], message_id="m1"),
        trace_samples.claude("assistant", "2", "1", [{"type": "text", "text": "Hello."}], message_id="m1"),
        trace_samples.claude("user", "1", None, "Hi."),
        trace_samples.claude("user", "3", "2", "More.", sessionId="T"),
        trace_samples.claude(
            "assistant", "4", "3", [{"type": "text", "text": "Yes."}], message_id="m2", sessionId="T"
        ),
    ]
    (session,) = _read(tmp_path, "\n".join(map(json.dumps, records)))

    assert [message.content for message in session.messages] == ["Hi.", "Hello.", "More.", "Yes."]
    assert _outputs(session) == [("Hello.", []), ("Yes.", [])]


def test_forked_codex_logs_are_one_session(tmp_path: Path) -> None:
    """The head of the session that a log was forked from does not start another session."""
    records = [
        trace_samples.codex("session_meta", id="new", forked_from_id="old"),
        trace_samples.codex("session_meta", id="old"),
        trace_samples.codex_text("user", "Hi."),
        trace_samples.codex_text("assistant", "Hello."),
        trace_samples.codex("session_meta", id="next"),
        trace_samples.codex_text("user", "Hi."),
        trace_samples.codex_text("assistant", "Hey."),
    ]
    sessions = _read(tmp_path, "\n".join(map(json.dumps, records)))

    assert {s.session_id: _outputs(s) for s in sessions} == {"new": [("Hello.", [])], "next": [("Hey.", [])]}


def test_compacted_codex_history_is_context(tmp_path: Path) -> None:
    """What a compaction puts in the place of the history was written earlier, the model's own items too."""
    kept = [
        trace_samples.codex_text(role, text)["payload"]
        for role, text in (("user", "Hi."), ("assistant", "Sum."))
    ]
    records = [
        trace_samples.codex("session_meta", id="R"),
        trace_samples.codex_text("user", "Hi."),
        trace_samples.codex_text("assistant", "Hello."),
        trace_samples.codex("compacted", message="unused", replacement_history=kept),
        trace_samples.codex_text("assistant", "On."),
    ]
    first, second = _read(tmp_path, "\n".join(map(json.dumps, records)))

    assert _outputs(first) == [("Hello.", [])]
    assert _outputs(second) == [("On.", [])]
    assert [message.content for message in second.messages] == ["Hi.", "Sum.", "On."]


def test_windows_line_ends_are_no_text(tmp_path: Path) -> None:
    """A chat history with Windows line ends reads as the same without, wherever the reads of the file fall."""
    text = SAMPLES["aider"].text * 500
    sessions = _read(tmp_path, text)
    (tmp_path / "log.txt").write_bytes(text.replace("\n", "\r\n").encode())

    assert sessions == list(read_sessions(tmp_path / "log.txt"))
