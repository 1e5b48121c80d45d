"""``suffixspec serve``: its options, what it says when it starts, and the process as a whole."""

import argparse
import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from engine.tiny import TOKENIZER

from suffixspec import cli
from suffixspec.cost import CostCurve
from suffixspec.engine import Engine
from suffixspec.errors import InputError
from suffixspec.server.command import introduction, listen, settings_of
from suffixspec.server.service import Service
from suffixspec.store import HistoryStore

# A server over the tiny model, by the command's own run().
PROGRAM = """
import sys
from engine.tiny import TOKENIZER, target
from suffixspec import cli
from suffixspec.engine import Engine
import suffixspec.server.command as command
command.load_engine = lambda args, **more: Engine(
    target(), TOKENIZER, kv_bytes=1 << 26, max_nodes=args.max_nodes, history_store=args.history, **more
)
sys.exit(cli.main(sys.argv[1:]))
"""


def parse(*arguments: str) -> argparse.Namespace:
    return cli.build_parser().parse_args(["serve", *arguments])


def test_the_help_teaches_with_examples(capsys):
    """``serve --help`` shows how to start it and how to point an agent at it."""
    with pytest.raises(SystemExit):
        cli.main(["serve", "--help"])
    out = capsys.readouterr().out
    for words in ("suffixspec serve", "OPENAI_BASE_URL=", "ANTHROPIC_BASE_URL=", "curl http", "--record"):
        assert words in out


def test_the_help_loads_no_server():
    """``serve --help`` imports neither a web framework nor a model's libraries."""
    code = (
        "import sys\nfrom suffixspec.cli import main\ntry:\n    main(['serve', '--help'])\n"
        "except SystemExit:\n    pass\nprint(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("starlette", "uvicorn", "prometheus_client", "torch", "transformers", "numba"):
        assert f"'{name}'" not in done.stderr
    assert "'suffixspec.server.command'" in done.stderr


def test_options_become_settings(tmp_path, monkeypatch):
    """Each option has its place; keys come from a file and from the environment."""
    keys = tmp_path / "keys"
    keys.write_text("one\n\n two \n")
    monkeypatch.setenv("SUFFIXSPEC_API_KEY", "three")
    settings = settings_of(
        parse(
            *("m", "--active", "3", "--waiting", "5", "--sessions", "2", "--idle-seconds", "7"),
            *("--request-seconds", "9", "--shutdown-seconds", "4", "--max-body-mib", "2"),
            *("--compile-seconds", "3"),
            *("--temperature", "0", "--top-k", "5", "--name", "n", "--no-draft", "--api-key-file", str(keys)),
            "--ignore-unknown-fields",
        )
    )
    assert (settings.most_active, settings.most_waiting, settings.idle_seconds) == (3, 5, 7.0)
    assert settings.sessions == 3, "a session for each call that takes its turn"
    assert (settings.request_seconds, settings.shutdown_seconds, settings.body_bytes) == (9.0, 4.0, 2 << 20)
    assert settings.compile_seconds == 3.0
    assert settings.sampling == {"temperature": 0.0, "top_p": 1.0, "top_k": 5, "min_p": 0.0}
    assert (settings.model_name, settings.drafting, settings.ignore_unknown_fields) == ("n", False, True)
    assert settings.api_keys == ["three", "one", "two"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--api-key-file", "/none/such"), "expected a file of API keys"),
        (("--temperature", "-1"), "expected temperature to be 0 or a number"),
        (("--top-p", "2"), "expected top_p to be a number from 0 to 1"),
        (("--record", "/none/such/file"), "to exist"),
        (("--host", "no such host"), "expected an address to listen at"),
    ],
    ids=str,
)
def test_what_cannot_be_is_told_before_a_model_is_loaded(monkeypatch, capsys, arguments, says):
    """Status 2 and a sentence."""
    monkeypatch.setattr(
        "suffixspec.server.command.load_engine", lambda *_, **__: pytest.fail("it was loaded")
    )
    monkeypatch.delenv("SUFFIXSPEC_API_KEY", raising=False)
    assert cli.main(["serve", "--port", "0", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_an_empty_file_of_keys_does_not_open_the_server(tmp_path, monkeypatch):
    """It is an error, and not a server without keys."""
    monkeypatch.delenv("SUFFIXSPEC_API_KEY", raising=False)
    keys = tmp_path / "keys"
    keys.write_text("\n \n")
    with pytest.raises(InputError, match="at least one API key"):
        settings_of(parse("--api-key-file", str(keys)))


def test_an_address_in_use_is_told():
    """What is in use, and what to do."""
    with listen("127.0.0.1", 0) as taken, pytest.raises(InputError, match="choose another --port"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_an_event_is_sent_at_once():
    """Of a connection that was accepted, no event waits for the acknowledgement of the one before it."""

    async def accepted() -> int:
        seen = asyncio.get_running_loop().create_future()

        async def look(_reader, writer):
            connection = writer.get_extra_info("socket")
            seen.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listen("127.0.0.1", 0) as made:
            async with await asyncio.start_server(look, sock=made):
                _, writer = await asyncio.open_connection(*made.getsockname())
                try:
                    return await seen
                finally:
                    writer.close()

    assert asyncio.run(accepted())


def test_the_start_says_what_is_in_effect(tiny_target):
    """Model, limits and defaults; a warning where anybody may ask from elsewhere; the line that an agent needs."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 30, max_nodes=7)
    lines = introduction(Service(engine, settings_of(parse("--temperature", "0.5"))), "127.0.0.1", 8000)
    assert "model tiny: torch.float64 on cpu, context 1,024 tokens, KV 1.0 GiB" in lines[0]
    assert "drafts up to 7 nodes, not sized by cost" in lines[0]
    assert "temperature 0.5, top_p 1, top_k 0, min_p 0" in lines[1]
    assert "no API key needed" in lines[1]
    assert len(lines) == 3
    assert lines[-1] == (
        "ready: OPENAI_BASE_URL=http://127.0.0.1:8000/v1 ANTHROPIC_BASE_URL=http://127.0.0.1:8000 model tiny"
    )
    lines = introduction(Service(engine, settings_of(parse("--no-draft"))), "0.0.0.0", 1)
    assert "drafts off" in lines[0]
    assert "warning: anybody who reaches 0.0.0.0:1" in lines[2]
    assert "http://127.0.0.1:1/v1" in lines[-1]
    sized = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 30, cost=CostCurve.fit([(1, 1.0), (2, 1.5)]))
    assert "not sized" not in introduction(Service(sized, settings_of(parse())), "::1", 1)[0]


def test_the_process_serves_and_stops(tmp_path):
    """Started as a user would: the ready line, an answer, a recording, status 0 after Ctrl-C, and a history."""
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    record, history = tmp_path / "calls.jsonl", tmp_path / "history"
    options = ("--port", "0", "--record", str(record), "--history", str(history))
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "serve", *options],
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": tests},
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("ready:"):
                break
        url = re.search(r"OPENAI_BASE_URL=(\S+)", line)
        assert url is not None, line
        request = urllib.request.Request(
            f"{url[1]}/completions", b'{"prompt": "x", "max_tokens": 3}', {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as response:
            assert b'"text_completion"' in response.read()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(600) == 0, rest
    assert "Traceback" not in rest
    assert record.read_text().count("\n") == 1
    with HistoryStore(history, tokenizer=TOKENIZER) as store:
        (record_kept,) = [
            one for info in store.log("default").segments() for one in store.log("default").read(info)
        ]
    assert 1 <= len(record_kept.tokens) <= 3
