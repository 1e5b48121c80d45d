"""The server within the process, as plug-ins begin it: by the environment, and recorded."""

import openai
import pytest
from engine.tiny import target, tokenizer
from server.scripts import HERMES

from suffixspec.engine import Engine
from suffixspec.integrations import local

from .frameworks import needs
from .rig import check_replay, saying


@pytest.fixture
def loaded(monkeypatch):
    """What models were loaded as; all of them are the tiny one."""
    needs("uvicorn", "suffixspec[serve]")
    asked = []

    def load(spec, **options):
        asked.append((spec, options))
        return Engine(target(), tokenizer(HERMES), kv_bytes=1 << 26)

    monkeypatch.setattr(Engine, "from_pretrained", load)
    monkeypatch.setattr(local, "_servers", {})
    for name in (local.MODEL_VARIABLE, local.RECORD_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    yield asked
    local.close_servers()


def ask(server, *contents: str) -> None:
    messages = []
    with openai.OpenAI(base_url=server.base_url, api_key=server.api_key, max_retries=0) as client:
        for content in contents:
            messages.append({"role": "user", "content": content})
            answer = client.chat.completions.create(model="any", messages=messages)
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})


def test_the_environment_records_any_plug_in(loaded, monkeypatch, tmp_path):
    """``SUFFIXSPEC_RECORD`` is where a plug-in's loop goes, ``SUFFIXSPEC_MODEL`` who answers; the file replays."""
    path = tmp_path / "calls.jsonl"
    monkeypatch.setenv(local.RECORD_VARIABLE, str(path))
    monkeypatch.setenv(local.MODEL_VARIABLE, "some/model")
    server = local.local_server("local")
    with saying("one", "two", "three"):
        ask(server, "a", "b", "c")
    local.close_servers()
    assert loaded == [("some/model", {})]
    assert server.api_key not in path.read_text()
    check_replay(path, turns=3)


def test_who_says_more_is_heard(loaded, monkeypatch, tmp_path):
    """A name, options and a file of a plug-in's own go before the environment; equal ones share a server."""
    monkeypatch.setenv(local.RECORD_VARIABLE, str(tmp_path / "environment.jsonl"))
    options = {"record": str(tmp_path / "own.jsonl"), "max_nodes": 8}
    server = local.local_server("suffixspec/own/model", **options)
    assert local.local_server("own/model", **options) is server
    with saying("one"):
        ask(server, "a")
    assert loaded == [("own/model", {"max_nodes": 8})]
    assert (tmp_path / "own.jsonl").stat().st_size > 0
    assert not (tmp_path / "environment.jsonl").exists()
    assert local.local_server() is not server


def test_only_who_has_the_key_may_ask(loaded):
    """Another program on the machine gets no answer, and no history."""
    server = local.local_server()
    with (
        pytest.raises(openai.AuthenticationError),
        openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client,
    ):
        client.models.list()
