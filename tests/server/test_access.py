"""API keys and namespaces: who is let in, and that nothing of one namespace is seen in another."""

import openai
import pytest

from suffixspec.server.auth import Gate
from suffixspec.server.errors import ApiError
from suffixspec.server.settings import Settings

from .harness import LONG, Running, user

KEYS = ("alpha-key-000000000", "beta-key-0000000000")
SECRET = "the abc secret 12 the abc secret 12 the abc"


@pytest.fixture
def locked(tiny_target):
    with Running(tiny_target, Settings(api_keys=KEYS)) as running:
        yield running


def ask(running, key, namespace=None, text=SECRET, **more):
    options = {"model": "m", "messages": [user(text)], "temperature": 0, "max_tokens": 24, "extra_body": LONG}
    headers = {} if namespace is None else {"X-Suffixspec-Namespace": namespace}
    return running.openai(key).chat.completions.create(**{"extra_headers": headers, **options, **more})


def test_a_key_is_needed_where_there_are_keys(locked):
    """401 without one and with another, in both APIs' shapes and on every endpoint but the two for monitoring."""
    with pytest.raises(openai.AuthenticationError):
        ask(locked, "other")
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/tokenize", "/detokenize"):
        status, _, answer = locked.ask(path, {})
        assert status == 401, path
        assert answer["error"]["code"] == "invalid_api_key"
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        status, _, answer = locked.ask(path, {})
        assert status == 401, path
        assert answer["error"]["type"] == "authentication_error"
    assert locked.ask("/v1/models")[0] == locked.ask("/v1/models/tiny")[0] == 401
    assert locked.ask("/health")[0] == locked.ask("/metrics")[0] == 200
    assert ask(locked, KEYS[1]).choices[0].message.content
    assert locked.anthropic(KEYS[0]).messages.count_tokens(model="m", messages=[user("x")]).input_tokens
    assert locked.service.scheduler.waiting == 0


def test_a_refused_key_is_not_repeated(locked):
    """An error says nothing about the key that came or those that there are."""
    _, _, answer = locked.ask("/v1/models", headers={"authorization": "Bearer wrong-key-1234"})
    assert "wrong-key" not in str(answer)
    assert not any(key in repr(locked.service.settings) for key in KEYS)


@pytest.mark.parametrize("other", [(KEYS[1], None), (KEYS[0], "b"), (KEYS[1], "a")], ids=str)
def test_another_namespace_is_as_if_nobody_had_been_there(tiny_target, other):
    """After one namespace's calls and its history, another's same call finds what it finds on a fresh server.

    No KV, and neither one token more drafted nor one more drafted right: what was learned is a trace too.
    """
    settings = Settings(api_keys=KEYS, sessions=1, most_active=1)
    with Running(tiny_target, settings) as running:
        for _ in range(2):
            first = ask(running, KEYS[0], "a")
            ask(running, KEYS[0], "a", text="closes the session before")
        warm = ask(running, KEYS[0], "a")
        again = ask(running, *other)
    with Running(tiny_target, settings) as running:
        fresh = ask(running, *other)
    assert first.choices[0].message.content == fresh.choices[0].message.content
    assert warm.timings["draft_n_accepted"] > fresh.timings["draft_n_accepted"], (
        "the test would not notice a leak"
    )
    told = ("cache_n", "prompt_n", "predicted_n", "draft_n", "draft_n_accepted")
    assert {name: again.timings[name] for name in told} == {name: fresh.timings[name] for name in told}
    assert again.usage.prompt_tokens_details.cached_tokens == 0


def test_a_session_hint_reaches_no_other_namespace(locked):
    """The same ids in another key's requests are another session."""
    headers = {"X-Session-ID": "shared", "X-Claude-Code-Session-Id": "shared"}
    ask(locked, KEYS[0], extra_headers=headers)
    assert ask(locked, KEYS[0], extra_headers=headers).usage.prompt_tokens_details.cached_tokens > 0
    assert ask(locked, KEYS[1], extra_headers=headers).usage.prompt_tokens_details.cached_tokens == 0


def test_a_stored_response_is_found_in_its_namespace_only(locked):
    """``previous_response_id`` of another key is as unknown as any."""
    mine = locked.openai(KEYS[0]).responses.create(model="m", input="x", max_output_tokens=1)
    locked.openai(KEYS[0]).responses.create(
        model="m", input="y", max_output_tokens=1, previous_response_id=mine.id
    )
    with pytest.raises(openai.BadRequestError) as theirs:
        locked.openai(KEYS[1]).responses.create(model="m", input="y", previous_response_id=mine.id)
    with pytest.raises(openai.BadRequestError) as nobodys:
        locked.openai(KEYS[1]).responses.create(model="m", input="y", previous_response_id="resp_0")
    assert theirs.value.code == nobodys.value.code == "previous_response_not_found"


def test_what_a_call_wrote_is_known_in_its_namespace_only(locked):
    """The text of a call's arguments does not come out under another key."""
    arguments = locked.service.arguments
    name = locked.service.gate.namespace({"x-api-key": KEYS[0]})
    other = locked.service.gate.namespace({"x-api-key": KEYS[1]})
    arguments.note(name, "call_1", '{"a":1}')
    assert arguments.text(name, "call_1", {"a": 1}) == '{"a":1}'
    assert arguments.text(other, "call_1", {"a": 1}) == '{"a": 1}'


def test_namespaces_have_names_of_their_own():
    """No key and header give the name of another key and header; a malformed header is refused."""
    gate = Gate(["one", "two"])
    names = {
        gate.namespace({"authorization": f"Bearer {key}", **header})
        for key in ("one", "two")
        for header in (
            {},
            {"x-suffixspec-namespace": "default"},
            {"x-suffixspec-namespace": "a/b"},
            {"x-suffixspec-namespace": "key-x"},
        )
    }
    assert len(names) == 8
    assert Gate().namespace({}) == "default"
    assert Gate().namespace({"authorization": "Bearer whatever"}) == "default"
    for bad in ("", "a b", "ü", "x" * 129, "a\0"):
        with pytest.raises(ApiError):
            Gate().namespace({"x-suffixspec-namespace": bad})
