"""Predicted outputs: faster where they come true, and with the output of a call without one."""

import random

import numpy as np
import pytest
import torch

from suffixspec.draft import IndexDrafter
from suffixspec.draft.calibration import Calibration
from suffixspec.engine import Engine
from suffixspec.errors import InputError

from .tiny import EOS, TOKENIZER, VOCAB, garbage, prompt

SAMPLING = ({}, {"temperature": 1.0, "seed": 5}, {"temperature": 0.7, "top_p": 0.9, "seed": 6})
FILE = "".join(f"def f{number}(x, y):\n    return x + {number} * y\n\n\n" for number in range(6))
EDITED = (
    FILE.replace("f3(x, y)", "f3(x, y, z)")
    .replace("x + 4 * y", "x - 4 * y")
    .replace("def f1", "async def f1")
)


def engine_with(target, **more) -> Engine:
    return Engine(target, TOKENIZER, kv_bytes=1 << 26, **more)


def scripted(prompt_length: int, ids: list[int]):
    """A logits processor that makes any model write ``ids``, then the end token."""
    wanted = [*ids, EOS]

    def process(context: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        forced = torch.full_like(scores, -torch.inf)
        forced[0, wanted[context.shape[1] - prompt_length]] = 0.0
        return forced

    return process


def write(session, text: str, *, head: str = "Edit the file.\n", **more):
    """A reply that is ``text``, whatever the model."""
    ids = TOKENIZER.encode(head)
    script = scripted(len(ids), TOKENIZER.encode(text, continues=True))
    return session.generate(ids, logits_processors=[script], **more)


def predictions(rng: random.Random, wanted: list[int]) -> dict[str, list[int]]:
    """Right, wrong, partly right in several ways, none, and a huge one."""
    edited = list(wanted)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(edited) + 1)
        edited[at : at + rng.randint(0, 3)] = [rng.randrange(VOCAB) for _ in range(rng.randint(0, 3))]
    noise = [rng.randrange(VOCAB) for _ in range(6_000)]
    return {
        "right": list(wanted),
        "wrong": [rng.randrange(VOCAB) for _ in range(50)],
        "edited": edited,
        "goes on": wanted + noise[:30],
        "cut": wanted[: len(wanted) // 2],
        "shuffled": rng.sample(wanted, len(wanted)),
        "empty": [],
        "huge": [*noise[:2500], *wanted, *noise[2500:]],
    }


@pytest.mark.parametrize("options", SAMPLING, ids=str)
def test_the_output_is_plain_decodings_whatever_is_predicted(tiny_target, options):
    """Right, wrong, partly right, empty and huge predictions, over prompts, budgets and drafters."""
    for case in range(2):
        rng = random.Random(f"{options} {case}")
        ids = prompt(rng.randrange(10**6), rng.randint(1, 60))
        more = {"max_tokens": rng.randint(1, 40), **options}
        plain = engine_with(tiny_target).plain(ids, **more)
        for kind, prediction in predictions(rng, plain.token_ids).items():
            nodes = rng.choice((1, 3, 12, 32))
            drafter = rng.choice((None, garbage(case, nodes=nodes), IndexDrafter(max_nodes=nodes)))
            engine = engine_with(tiny_target, drafter=drafter, max_nodes=nodes)
            session = engine.session("s")
            for _ in range(2):  # the second time with what the first has taught
                reply = session.generate(ids, prediction_ids=prediction, **more)
                assert reply.token_ids == plain.token_ids, f"{kind}, case {case}, {options}"
                assert (reply.text, reply.finish_reason) == (plain.text, plain.finish_reason)
                assert reply.prediction_accepted + reply.prediction_rejected == len(prediction)
            if kind == "right":
                assert reply.prediction_rejected == 0
            engine.branches.check()


def test_a_right_prediction_is_drafted_from_the_first_token(tiny_target):
    """Nothing in the prompt or history says what comes: with 15 nodes, 16 tokens a step from the start."""
    engine = engine_with(tiny_target, max_nodes=15)
    text = "".join(chr(97 + i % 26) + chr(65 + i % 23) for i in range(80))
    reply = write(engine.session("s"), text, head="x", prediction_ids=TOKENIZER.encode(text))
    assert reply.text == text
    assert reply.accepted_flags[0]
    tokens = len(reply.token_ids)
    assert reply.counts.steps == -(-tokens // 16)
    assert (reply.prediction_accepted, reply.prediction_rejected) == (tokens - 1, 0)


def test_an_edited_file_takes_few_steps(tiny_target):
    """The target writes the predicted file with three edits: nearly all from drafts, a step or two an edit."""
    predicted = TOKENIZER.encode(FILE)
    steps = {}
    for kind, prediction in (("none", None), ("predicted", predicted)):
        engine = engine_with(tiny_target, max_nodes=24, history="off")
        reply = write(engine.session(kind), EDITED, prediction_ids=prediction)
        assert reply.text == EDITED
        steps[kind] = reply.counts.steps
    tokens = len(reply.token_ids)
    assert steps["predicted"] <= tokens / 25 + 10
    assert steps["predicted"] < 0.6 * steps["none"], steps
    assert sum(reply.accepted_flags) >= 0.9 * tokens
    assert reply.prediction_rejected <= 3
    assert reply.prediction_accepted >= 0.98 * len(predicted)
    assert tokens == len(TOKENIZER.encode(EDITED)) + 1, "rejected tokens are no part of the output"


def test_a_chat_takes_a_text_or_parts_of_one(engine):
    """Parts are put together; the counts are those of the whole text; the output is the same in each way."""
    messages = [{"role": "user", "content": "go"}]
    plain = engine.session("plain").chat(messages, max_tokens=30)
    assert plain.prediction_accepted == plain.prediction_rejected == 0
    whole = engine.session("whole").chat(messages, max_tokens=30, prediction=plain.text)
    parts = engine.session("parts").chat(messages, max_tokens=30, prediction=[plain.text[:7], plain.text[7:]])
    assert whole.token_ids == parts.token_ids == plain.token_ids
    total = len(TOKENIZER.encode(plain.text))
    for reply in (whole, parts):
        assert reply.prediction_accepted + reply.prediction_rejected == total
    with engine.session("stream").chat(messages, max_tokens=30, prediction="x", stream=True) as stream:
        assert "".join(stream) == plain.text
        assert stream.turn.prediction.rejected == stream.reply.prediction_rejected == 1
    empty = engine.session("empty").chat(messages, max_tokens=30, prediction="")
    assert (empty.prediction_accepted, empty.prediction_rejected) == (0, 0)


@pytest.mark.parametrize("prediction", [3, [3], {"content": "x"}, None], ids=str)
def test_a_malformed_prediction_is_an_input_error(engine, prediction):
    """Neither a text nor a list of texts; or ids that the model does not have."""
    if prediction is not None:
        with pytest.raises(InputError, match="expected prediction to be a text"):
            engine.session("s").chat([{"role": "user", "content": "go"}], prediction=prediction)
    for ids in ([VOCAB], [-1], [[1]], [0.5]):
        with pytest.raises(InputError, match="expected"):
            engine.session("s").generate([1, 2], prediction_ids=ids)


def test_nothing_of_a_prediction_remains(tiny_target):
    """Neither the session, nor its history, nor any other session or namespace ever drafts from it."""
    secret = [3, 1, 4, 1, 5, 9, 2, 6] * 4
    asked = [prompt(seed, 30) + secret[:3] for seed in range(4)]

    def drafts(predicted: bool) -> tuple[list, Engine]:
        engine = engine_with(tiny_target)
        widths = []
        for ids in asked[:2]:
            more = {"prediction_ids": secret} if predicted else {}
            engine.session("a", "one").generate(ids, max_tokens=6, seed=1, **more)
        # With a prediction there are other steps to learn from; what was learned of repeats holds no text.
        engine.drafter.set_calibrations({"0": Calibration()})
        for name, namespace in (("a", "one"), ("b", "one"), ("a", "two")):
            if name == "b":
                engine.session("a", "one").close()
            session = engine.session(name, namespace)
            for ids in asked[2:]:
                session._drafting.sync(ids)
                draft = session._drafting.draft()
                widths.append((draft.token_ids.tolist(), draft.parents.tolist()))
        return widths, engine

    with_prediction, engine = drafts(True)
    assert with_prediction == drafts(False)[0]
    for session in engine._sessions.values():
        tokens = session._drafting._index.tree.tokens.tolist()
        assert all(tokens[i : i + 8] != secret[:8] for i in range(len(tokens)))
    for namespace in ("one", "two"):
        index = engine.drafter.history.index(namespace).cursor()
        index.extend(np.array(secret[:8], np.int32))
        assert max((int(arguments[4][1]) for arguments in index.arguments()), default=0) < 8


def test_a_plain_session_counts_and_drafts_nothing(tiny_target):
    """Drafting off: one token a step, and the account of the prediction all the same."""
    ids = prompt(1, 20)
    engine = engine_with(tiny_target)
    wanted = engine.plain(ids, max_tokens=12)
    reply = engine.plain(ids, max_tokens=12, prediction_ids=wanted.token_ids)
    assert reply.counts.drafted == 0
    assert reply.prediction_accepted == len(wanted.token_ids)
