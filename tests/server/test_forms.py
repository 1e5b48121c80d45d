"""Predicted Outputs and ``response_format``: what they ask for reaches the engine, and what came of it the client."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from engine.tiny import TOKENIZER, VOCAB

from suffixspec.server.settings import Settings
from suffixspec.verify import grammar
from suffixspec.verify.compile_process import CompileProcess
from suffixspec.verify.grammar import compile_grammar

from .harness import GREEDY, LONG, Running, user

MODEL = "tiny"
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}


def test_a_prediction_is_counted(server):
    """What comes out again is accepted, the rest rejected, each token once; the output stays what it is."""
    options = {
        "model": MODEL,
        "messages": [user("predict")],
        "temperature": 0,
        "max_tokens": 20,
        "extra_body": LONG,
    }
    text = server.openai().chat.completions.create(**options).choices[0].message.content
    for content in (text, [{"type": "text", "text": text[:5]}, {"type": "text", "text": text[5:]}]):
        got = server.openai().chat.completions.create(
            prediction={"type": "content", "content": content}, **options
        )
        assert got.choices[0].message.content == text
        # Not all: half a character, of which the random model writes many, is another one in the prediction.
        assert got.usage.completion_tokens_details.accepted_prediction_tokens >= 8
    wrong = server.openai().chat.completions.create(
        prediction={"type": "content", "content": "~~~ ~~~"}, **options
    )
    assert wrong.choices[0].message.content == text
    assert wrong.usage.completion_tokens_details.accepted_prediction_tokens < 8
    assert wrong.usage.completion_tokens_details.rejected_prediction_tokens > 0
    assert wrong.usage.completion_tokens == 20


@pytest.mark.parametrize("stream", [False, True])
def test_an_output_follows_its_schema(server, stream):
    """Over all three APIs a random model writes JSON of the schema, which it never would by itself."""
    pytest.importorskip("xgrammar")
    named = {"name": "x", "schema": SCHEMA, "strict": True}
    bodies = {
        "/v1/chat/completions": {
            "messages": [user("json")],
            "response_format": {"type": "json_schema", "json_schema": named},
        },
        "/v1/responses": {"input": "json", "text": {"format": {"type": "json_schema", **named}}},
        "/v1/messages": {
            "messages": [user("json")],
            "max_tokens": 100,
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        },
    }
    for path, body in bodies.items():
        status, _, answer = server.ask(path, {"model": MODEL, "stream": stream, **GREEDY, **body})
        assert status == 200, answer
        if stream:
            events = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {")]
            if path == "/v1/chat/completions":
                text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
            elif path == "/v1/responses":
                text = "".join(event["delta"] for event in events if event["type"].endswith("text.delta"))
            else:
                text = "".join(
                    event["delta"]["text"]
                    for event in events
                    if event["type"].endswith("_delta") and "text" in event["delta"]
                )
        elif path == "/v1/chat/completions":
            text = answer["choices"][0]["message"]["content"]
        elif path == "/v1/responses":
            text = answer["output"][0]["content"][0]["text"]
        else:
            text = answer["content"][0]["text"]
        assert set(json.loads(text)) == {"a"}, path


def test_json_and_grammars_are_followed(server):
    """``json_object``, and a grammar of one's own."""
    pytest.importorskip("xgrammar")

    def ask(form):
        body = {"model": MODEL, "messages": [user("x")], "max_tokens": 60, "response_format": form, **GREEDY}
        status, _, answer = server.ask("/v1/chat/completions", body)
        assert status == 200, answer
        return answer["choices"][0]["message"]["content"]

    assert ask({"type": "json_object"}).startswith("{")
    assert ask({"type": "grammar", "grammar": 'root ::= "yes" | "no"'}) in {"yes", "no"}


@pytest.mark.parametrize(
    "form",
    [
        {"type": "grammar", "grammar": "root ::= ("},
        {"type": "grammar"},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "unicorn"}}},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": 3}},
    ],
    ids=str,
)
def test_a_form_that_cannot_be_followed_is_refused(server, form):
    """400 before anything is decoded, with the field's name."""
    pytest.importorskip("xgrammar")
    body = {"model": MODEL, "messages": [user("x")], "max_tokens": 5, "response_format": form}
    status, _, answer = server.ask("/v1/chat/completions", body)
    assert status == 400, answer
    assert answer["error"]["param"].startswith("response_format")


ENDLESS = {"enum": [f"value number {number} of so many" for number in range(60_000)]}
"""What takes a compiler minutes."""


def test_what_takes_for_ever_to_compile_is_refused_in_time(tiny_target):
    """A sentence after the time limit, at once when it comes again, and others are served meanwhile."""
    pytest.importorskip("xgrammar")
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": ENDLESS}}
    body = {"model": MODEL, "messages": [user("x")], "max_tokens": 5}
    path = "/v1/chat/completions"
    with (
        Running(tiny_target, Settings(compile_seconds=2.0, most_active=2, most_waiting=8)) as running,
        ThreadPoolExecutor(9) as pool,
    ):
        small = {"type": "grammar", "grammar": 'root ::= "yes"'}
        assert running.ask(path, body | {"response_format": small})[0] == 200  # all is imported
        bound = pool.submit(running.ask, path, body | {"response_format": form})
        others = [pool.submit(running.ask, path, body) for _ in range(6)]
        assert [other.result()[0] for other in others] == [200] * 6
        status, _, answer = bound.result()
        assert status == 400, answer
        assert "compiles within 2 s" in answer["error"]["message"]
        assert answer["error"]["param"] == "response_format"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CompileProcess, "check", None)  # not asked again
            assert running.ask(path, body | {"response_format": form})[0] == 400


def test_a_process_that_has_ended_is_started_anew():
    """The process that tries grammars may die like any other."""
    pytest.importorskip("xgrammar")
    for number in range(2):
        compile_grammar(TOKENIZER, VOCAB, TOKENIZER.eos_ids, ebnf=f'root ::= "{number}"', seconds=60)
        process = grammar._process._process
        process.kill()
        process.wait()
    compile_grammar(TOKENIZER, VOCAB, TOKENIZER.eos_ids, ebnf='root ::= "anew"', seconds=60)
    assert grammar._process._process is not process
