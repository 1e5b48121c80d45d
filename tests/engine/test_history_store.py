"""An engine with a history store: what one run wrote is drafted by the next, and outputs stay the same."""

import threading
import time
import warnings

import pytest

from suffixspec.draft import NoDrafter
from suffixspec.engine import Engine
from suffixspec.errors import InputError
from suffixspec.store import HistoryStore

from .tiny import EOS, TOKENIZER

OPTIONS = {"max_tokens": 40, "logit_bias": {EOS: -100.0}}


def wait_until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


def run(tiny_target, place, namespace: str) -> tuple[list[int], float]:
    """One call of a new engine over a history; its output, and tokens per step."""
    with Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, history_store=place) as engine:
        session = engine.session("s", namespace)
        wait_until(lambda: engine.saved.resident(namespace))
        reply = session.chat([{"role": "user", "content": "the file of tests"}], **OPTIONS)
        session.close()
    return reply.token_ids, reply.tokens_per_step


def test_the_second_engine_drafts_from_the_first(tiny_target, tmp_path):
    """Fewer steps, the same output; another namespace has nothing of it, and plain sessions leave nothing."""
    first, slow = run(tiny_target, tmp_path / "h", "n")
    second, fast = run(tiny_target, tmp_path / "h", "n")
    other, other_tau = run(tiny_target, tmp_path / "h", "other")
    assert first == second == other
    assert fast > 2 * slow
    assert other_tau == slow
    with HistoryStore(tmp_path / "h") as store:
        assert store.names() == ["n", "other"]
        assert [one.tokens.tolist() for one in store.records("n")] == [first, second]
        assert next(store.records("n")).text == TOKENIZER.decode(first, continues=True)


def test_other_sessions_go_on_while_an_output_becomes_history(tiny_target, tmp_path, monkeypatch):
    """Who indexes an output holds the engine's lock for a piece of it at a time, and not around all of them."""
    with Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, history_store=tmp_path / "h") as engine:
        keep, kept = engine.saved.keep, []

        def keeping(*output) -> None:
            had = threading.Event()

            def have() -> None:
                with engine.lock:
                    had.set()

            threading.Thread(target=have, daemon=True).start()
            assert had.wait(10), "the lock is held"
            keep(*output)
            kept.append(output)

        monkeypatch.setattr(engine.saved, "keep", keeping)
        session, other = engine.session("s"), engine.session("t")
        first = session.chat([{"role": "user", "content": "a"}], **OPTIONS)
        again = other.chat([{"role": "user", "content": "a"}], **OPTIONS)
        assert [one[1] for one in kept] == ["s", "t"]
        assert first.token_ids == again.token_ids
        assert again.counts.steps < first.counts.steps / 2, "while the first one may go on"


def test_a_store_of_one_s_own_stays_open(tiny_target, tmp_path):
    """An engine closes the store that it opened, and no other; a drafter without a history is refused."""
    with HistoryStore(tmp_path / "h", tokenizer=TOKENIZER) as store:
        with Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, history_store=store) as engine:
            engine.session("s").chat([{"role": "user", "content": "a"}], **OPTIONS)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(list(store.records("default"))) == 1
            assert store.forget(session="s", timeout=0).records == 1
        with pytest.raises(InputError, match="got NoDrafter"):
            Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, drafter=NoDrafter(), history_store=store)
