"""Random schedules of a simulated engine: whatever happens to requests, outputs are those without drafts."""

import random

import pytest

from suffixspec.integrations.vllm import Proposer

from .rig import END, VOCABULARY, Engine, vllm_config

K = 5
LENGTH = 160


def schedule(engine: Engine, seed: int) -> dict[str, list[int]]:
    """Add, abort, preempt, leave out, move, bring back; the same order of requests for each engine."""
    arrivals, chance = random.Random(seed), random.Random(seed + 1)
    system = [arrivals.randrange(3, VOCABULARY) for _ in range(20)]
    loops = [[*system, *(arrivals.randrange(3, VOCABULARY) for _ in range(6)), END, 3] for _ in range(3)]
    count = 0
    aborted = set()
    for _ in range(140):
        if count < 24 and arrivals.random() < 0.3:
            prompt = list(arrivals.choice(loops))
            # A later turn: what a turn of this loop wrote before is in the prompt, where it has come by now.
            prompt += [arrivals.randrange(3, VOCABULARY) for _ in range(arrivals.randrange(0, 40))]
            named = {"suffixspec_session": arrivals.choice("xy")} if arrivals.random() < 0.5 else None
            engine.add(
                f"r{count}",
                prompt,
                max_tokens=arrivals.randrange(1, 60),
                eos_token_id=arrivals.choice([END, None]),
                temperature=arrivals.choice([0.0, 0.7]),
                extra_args=named,
            )
            count += 1
        for req_id in list(engine.running):
            dice = chance.random()
            if dice < 0.01:
                engine.abort(req_id)
                aborted.add(req_id)
            elif dice < 0.04:
                engine.preempt(req_id)
        left_out = {req_id for req_id in engine.running if chance.random() < 0.15}
        engine.step(chance, skip=left_out | engine.preempted if chance.random() < 0.8 else left_out)
    engine.run()
    return {req_id: output for req_id, output in engine.outputs.items() if req_id not in aborted}


@pytest.mark.parametrize("seed", range(12))
def test_outputs_are_those_without_drafts_and_nothing_is_left_behind(seed):
    settings = {"max_sessions": 4, "index_tokens": 25 if seed % 2 else 1000, "cost": "gpu"}
    proposer = Proposer(vllm_config(k=K, max_model_len=LENGTH, settings=settings))
    engine = Engine(proposer, rows=5, max_model_len=LENGTH, chunk=11)
    drafted = schedule(engine, seed)
    # Steps differ, and so does who is aborted when: what plain decoding gives is looked up request by request.
    plain = Engine(None, rows=5, max_model_len=LENGTH, chunk=11)
    plainly = schedule(plain, seed)
    both = drafted.keys() & plainly.keys()
    assert len(both) >= 10
    assert {req_id: drafted[req_id] for req_id in both} == {req_id: plainly[req_id] for req_id in both}
    assert 0 < engine.longest <= K
    assert proposer._failures == 0
    assert not proposer._said
    assert not proposer._live
    assert not any(lane.busy for lane in proposer.table)
    # Requests that run are not bounded by it, so there may be more for a while; the next sweep closes them.
    proposer.table.sweep()
    assert len(proposer.table) <= 4
    proposer.close()
    assert len(proposer.table) == 0
