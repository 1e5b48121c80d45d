"""Namespaces: what one tenant wrote cannot be drawn from another's drafts.

What is and is not promised stands in ``suffixspec.store``.
"""

import random
from typing import ClassVar

import numpy as np
import pytest

from suffixspec.draft import IndexDrafter
from suffixspec.native import draft as native
from suffixspec.store.saved_history import open_saved

from .inputs import Words
from .test_forget import wait_until

COMMON = list(range(1, 40))
"""What both tenants say: prompts, tools, boilerplate."""
SECRETS = range(100_000, 100_400)
"""What only the first one says."""
OTHERS = range(200_000, 200_400)
"""What it says instead in a world without the secrets."""


def texts_of(rng: random.Random, private: range) -> list[tuple[list[int], list[int]]]:
    """Prompts and outputs: common text with private text in it."""
    found = []
    for _ in range(12):
        start = rng.randrange(len(COMMON) - 10)
        own = rng.randrange(len(private) - 20)
        secret = list(private[own : own + 20])
        found.append((COMMON[start : start + 8], [*COMMON[start : start + 3], *secret, *COMMON[:4]]))
    return found


def speak(saved, namespace: str, texts, *, learn: bool) -> None:
    for number, (prompt, output) in enumerate(texts):
        session = saved.session(namespace, f"s{number}")
        session.sync(np.array(prompt), learn=learn)
        session.draft()
        session.accept(np.array(output, np.int32))
        session.end_turn()
        session.close()


def probes(rng: random.Random, texts) -> list[list[int]]:
    """What the second tenant asks: common text, and the first one's own prompts with guessed beginnings."""
    asked = [prompt for prompt, _ in texts]
    asked += [prompt + output[: rng.randrange(1, 10)] for prompt, output in texts]
    asked += [output[: rng.randrange(1, len(output))] for _, output in texts]
    asked += [COMMON[start:end] for start in range(0, 30, 3) for end in (start + 2, start + 9)]
    return asked


def answers(saved, texts, seed: int, *, drafts: int = 3) -> list:
    """All that the second tenant gets to see: tokens, parents, probabilities, sources."""
    rng = random.Random(seed)
    seen = []
    for asked in probes(rng, texts):
        session = saved.session("second", "probe")
        session.sync(np.array(asked), learn=False)
        for _ in range(drafts):
            draft = session.draft()
            seen.append((asked, draft.token_ids.tolist(), draft.parents.tolist(), draft.probs.tolist()))
            seen.append(session.sources(len(draft)).tolist())
            follow = draft.token_ids[:1].tolist() or [int(rng.choice(COMMON))]
            session.accept(np.array(follow, np.int32))
        session.end_turn()
        session.close()
    return seen


def drafter_of(kind: str) -> IndexDrafter:
    return IndexDrafter(suffix=kind != "ngram", ngram=kind != "suffix")


@pytest.mark.parametrize("kind", ["suffix", "ngram", "combined"])
@pytest.mark.parametrize("seed", range(2))
def test_one_tenant_cannot_draw_another_s_text(tmp_path, kind, seed):
    """Whatever the second tenant asks, with guessed beginnings of secrets too: no token that it did not give itself.

    In the process that heard the secrets, and in one that read them from disk. The first tenant gets them.
    """
    texts = texts_of(random.Random(seed), SECRETS)
    guessed: set[int] = set()
    for run in ("heard", "read"):
        saved = open_saved(tmp_path, drafter_of(kind), Words(), background=False)
        if run == "heard":
            speak(saved, "first", texts, learn=True)
            speak(saved, "second", [(prompt, COMMON[5:30]) for prompt, _ in texts], learn=True)
        first = saved.session("first", "own")
        # What is read from disk goes to the trees, not to the n-grams.
        if kind != "ngram" or run == "heard":
            first.sync(np.array([*texts[0][0], *texts[0][1][:4]]))
            assert first.draft().token_ids[0] == texts[0][1][4], "its own tenant should get it"
        for entry in answers(saved, texts, seed):
            if isinstance(entry, tuple):
                asked, tokens, _, _ = entry
                guessed |= set(asked)
                leaked = [token for token in tokens if token in SECRETS and token not in guessed]
                assert not leaked, f"seed {seed}, {run}: {asked} gave {leaked}"
        said = {token for _, output in texts for token in output if token in SECRETS}
        assert len(said - guessed) > 10, f"seed {seed}: there should be something left to draw"
        saved.close()


@pytest.mark.parametrize("seed", range(2))
def test_a_tenant_s_drafts_do_not_depend_on_what_another_wrote(tmp_path, seed):
    """Whatever the first tenant wrote, or nothing: the second sees the same tokens, trees, probabilities and sources.

    What was learned of repeats is shared between namespaces, so the first does not teach it here.
    """
    worlds = []
    for number, private in enumerate((SECRETS, OTHERS, None)):
        saved = open_saved(tmp_path / str(number), IndexDrafter(), Words(), background=False)
        if private is not None:
            speak(saved, "first", texts_of(random.Random(seed), private), learn=False)
        asked = texts_of(random.Random(seed), SECRETS)
        speak(saved, "second", [(prompt, COMMON[5:30]) for prompt, _ in asked], learn=False)
        worlds.append(answers(saved, asked, seed))
        saved.close()
    assert worlds[0] == worlds[1] == worlds[2], f"seed {seed}"
    assert any(tokens for entry in worlds[0] if isinstance(entry, tuple) for tokens in entry[1:2])


class Watched:
    """Notes the calls of a kernel: how often, and the kinds of its arguments."""

    calls: ClassVar[list] = []

    def __init__(self, kernel) -> None:
        self._kernel = kernel

    def __call__(self, *arguments):
        """Call it."""
        kinds = [(str(a.dtype), a.ndim) if isinstance(a, np.ndarray) else type(a).__name__ for a in arguments]
        self.calls.append(kinds)
        return self._kernel(*arguments)


def test_hits_and_misses_run_the_same_code(tmp_path, monkeypatch):
    """What only another tenant knows, what is its own and what nobody knows is looked up in the same way.

    The same kernel is called once with the same kinds of arguments, and the answer has the same fields. That it
    takes the same time is not said.
    """
    saved = open_saved(tmp_path, IndexDrafter(), Words(), background=False)
    texts = texts_of(random.Random(1), SECRETS)
    speak(saved, "first", texts, learn=True)
    own = [([900 + i for i in range(8)], [950 + i for i in range(20)])]
    speak(saved, "second", own, learn=True)
    wait_until(lambda: saved.resident("second"))
    monkeypatch.setattr(native, "draft", Watched(native.draft))
    seen = {}
    for name, prompt in (("another's", texts[0][0]), ("own", own[0][0]), ("nobody's", [7777, 7778, 7779])):
        session = saved.session("second", "probe")
        session.sync(np.array(prompt))
        Watched.calls.clear()
        draft = session.draft()
        fields = [(str(a.dtype), a.ndim) for a in (draft.token_ids, draft.parents, draft.probs)]
        seen[name] = (list(Watched.calls), type(draft).__name__, fields)
        assert bool(len(draft)) == (name == "own")
        assert len(Watched.calls) == 1
    assert seen["another's"] == seen["nobody's"] == seen["own"]
    saved.close()
