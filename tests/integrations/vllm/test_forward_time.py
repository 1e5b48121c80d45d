"""What a forward costs, learned from steps."""

import numpy as np
import pytest

from suffixspec.cost import CostCurve, best_prefix
from suffixspec.integrations.hosted.settings import ON_CPU
from suffixspec.integrations.vllm import forward_time
from suffixspec.integrations.vllm.forward_time import ForwardTime

GPU = CostCurve.named("gpu")


def cpu(n, context, pairs):
    """Seconds on a core that multiplies slowly: a token costs 7 % of the first, and more behind a long context."""
    return (50 + 3.6 * (n - 1) + 9.6 * context / 1e3 + 2.3 * pairs / 1e3) / 1e3


def gpu(n, context, pairs):
    """Seconds on a GPU that serves a batch: flat up to 128 tokens, then a straight line; context has to be read."""
    return (9 + 0.05 * max(n - 128, 0) + 0.02 * context / 1e3 + 0.0001 * pairs / 1e3) / 1e3


def teach(times, machine, *, seed, steps, sequences=1, longest=32, noise=0.03):
    """Steps with drafts of random lengths."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        contexts = rng.integers(500, 5000, sequences)
        drafts = rng.integers(0, longest + 1, sequences)
        n, pairs = int(sequences + drafts.sum()), int(drafts @ contexts)
        seconds = machine(n, int(contexts.sum()), pairs) * float(np.exp(rng.normal(0.0, noise)))
        times.observe(n, int(contexts.sum()), pairs, seconds)


def decode(choose, machine, *, seed, steps, skip):
    """Tokens per second of one sequence after its first ``skip`` steps, with drafts as ``choose`` says."""
    rng = np.random.default_rng(seed)
    context, yields, seconds = 500, 0.0, 0.0
    for step in range(steps):
        probs = np.cumprod(rng.uniform(rng.choice([0.0, 0.6, 0.95]), 1.0, 32))
        drafted, observe = choose(probs, context)
        took = machine(drafted + 1, context, drafted * context)
        observe(took * float(np.exp(rng.normal(0.0, 0.03))))
        context += 10
        if step >= skip:
            yields += 1.0 + float(probs[:drafted].sum())
            seconds += took
    return yields / seconds


def learning(times):
    """Drafts by what was learned, which each step adds to."""

    def choose(probs, context):
        seen = times.times(1, 32, context=context) + times.ms_per_pair * context * np.arange(33)
        k = best_prefix(probs, seen / seen[0])
        return k, lambda took: times.observe(k + 1, context, k * context, took)

    return choose


def knowing(machine):
    """Drafts by what the machine takes."""

    def choose(probs, context):
        true = np.array([machine(k + 1, context, k * context) for k in range(33)])
        return best_prefix(probs, true / true[0]), lambda _: None

    return choose


@pytest.mark.parametrize("curve", [GPU, ON_CPU, CostCurve.named("mid")], ids=lambda curve: curve.name)
@pytest.mark.parametrize("machine", [cpu, gpu])
def test_after_some_steps_drafts_are_as_long_as_on_this_machine_is_best(curve, machine):
    for seed in range(5):
        best = decode(knowing(machine), machine, seed=seed, steps=400, skip=100)
        learned = decode(learning(ForwardTime(curve, widest=4096)), machine, seed=seed, steps=400, skip=100)
        assert learned > 0.97 * best, f"seed {seed}"


def test_the_wrong_curve_alone_is_much_worse():
    """So that the test above can fail."""
    best = decode(knowing(cpu), cpu, seed=0, steps=400, skip=100)
    fixed = decode(learning(ForwardTime(GPU, widest=4096, learn=False)), cpu, seed=0, steps=400, skip=100)
    assert fixed < 0.9 * best


def test_a_curve_that_does_not_learn_is_itself():
    fixed = ForwardTime(GPU, widest=64, learn=False)
    teach(fixed, cpu, seed=0, steps=50)
    assert fixed.steps == 0
    assert fixed.times(1, 40, context=9000) == pytest.approx(GPU.times(40))
    assert fixed.ms_per_pair == 0.0


def test_the_filter_is_the_regression_that_it_stands_for(monkeypatch):
    """Its slow twin: all steps at once, weighed against what was believed before. Without fading and without cuts."""
    monkeypatch.setattr(forward_time, "_MEMORY", 1e18)
    monkeypatch.setattr(forward_time, "_WIDEST_SURPRISE", 1e18)
    monkeypatch.setattr(forward_time, "_FIRST", 1)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        learned = ForwardTime(GPU, widest=64)
        learned.observe(1, 0, 0, 0.05)
        prior, vague = learned._state.copy(), learned._covariance.copy()
        rows, seen, noise = [], [], []
        for _ in range(12):
            n, context, pairs = (int(rng.integers(1, top)) for top in (65, 5000, 90_000))
            hat = np.zeros(7)
            low = min(int(np.log2(n)), 5)
            hat[low], hat[low + 1] = 1 - (np.log2(n) - low), np.log2(n) - low
            rows.append([GPU.table(63)[n - 1], context / 4096, pairs / 2**17, *hat])
            noise.append(0.1 * float(np.dot(rows[-1], learned._state)))
            seen.append(1e3 * cpu(n, context, pairs) / 50.0)
            learned.observe(n, context, pairs, cpu(n, context, pairs))
        a, y, w = np.array(rows), np.array(seen), 1 / np.array(noise) ** 2
        precision = np.linalg.inv(vague)
        exact = np.linalg.solve(precision + a.T * w @ a, precision @ prior + a.T @ (w * y))
        assert learned._state == pytest.approx(exact, rel=1e-4, abs=1e-4), f"seed {seed}"


def test_the_first_steps_of_an_engine_may_be_slow():
    learned = ForwardTime(GPU, widest=64)
    learned.observe(1, 1000, 0, 20.0)
    teach(learned, cpu, seed=5, steps=40)
    seen = learned.times(1, 32, context=2000)[[8, 16]] + learned.ms_per_pair * 2000 * np.array([8, 16])
    assert seen == pytest.approx([1e3 * cpu(k + 1, 2000, 2000 * k) for k in (8, 16)], rel=0.15)


def test_a_stall_of_the_machine_is_no_slow_forward():
    learned = ForwardTime(ON_CPU, widest=64)
    teach(learned, cpu, seed=1, steps=100)
    before = learned.times(1, 32, context=2000)
    learned.observe(5, 2000, 8000, 60.0)
    assert np.all(learned.times(1, 32, context=2000) < 1.5 * before)
    for _ in range(5):
        learned.observe(5, 2000, 8000, cpu(5, 2000, 8000))
    assert np.all(learned.times(1, 32, context=2000) < 1.15 * before)


def test_a_machine_that_has_become_slower_is_followed():
    learned = ForwardTime(ON_CPU, widest=64)
    teach(learned, cpu, seed=2, steps=200)
    teach(learned, lambda *forward: 2 * cpu(*forward), seed=3, steps=100)
    seen = learned.times(1, 32, context=2000)[[0, 8, 32]] + learned.ms_per_pair * 2000 * np.array([0, 8, 32])
    true = [2e3 * cpu(k + 1, 2000, 2000 * k) for k in (0, 8, 32)]
    assert seen == pytest.approx(true, rel=0.15)


def test_a_width_that_is_no_longer_tried_returns_to_the_curve():
    """So that drafts which did not pay once are tried again."""
    learned = ForwardTime(GPU, widest=64)
    rng = np.random.default_rng(4)
    for n in [1, 17] * 30:
        learned.observe(n, 1000, 0, 0.01 * (1 if n == 1 else 8) * float(np.exp(rng.normal(0, 0.03))))
    taught = learned.times(1, 16)
    assert taught[16] > 5 * taught[0]
    for _ in range(5000):
        learned.observe(1, 1000, 0, 0.01 * float(np.exp(rng.normal(0, 0.03))))
    forgotten = learned.times(1, 16)
    assert forgotten[16] < 1.5 * forgotten[0]


def test_times_never_fall_and_are_never_nothing_whatever_was_seen():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        learned = ForwardTime(GPU, widest=int(rng.integers(1, 300)))
        for _ in range(200):
            n, context = int(rng.integers(1, 400)), int(rng.integers(1, 10**5))
            pairs = int(rng.integers(0, 10**7))
            learned.observe(n, context, pairs, float(10 ** rng.uniform(-4, 1)))
        times = learned.times(int(rng.integers(1, 50)), 500, context=int(rng.integers(0, 10**5)))
        assert len(times) == 501
        assert np.all(np.isfinite(times)), f"seed {seed}"
        assert np.all(times > 0), f"seed {seed}"
        assert np.all(np.diff(times) >= 0), f"seed {seed}"
        assert learned.ms_per_pair >= 0


def test_what_was_seen_stays_sure_and_what_was_not_stays_open():
    """A million steps of one kind must not blow up what no step tells of."""
    learned = ForwardTime(GPU, widest=64)
    for _ in range(20_000):
        learned.observe(1, 1000, 0, 0.01)
    assert np.all(np.diag(learned._covariance) <= 1.001 * np.diag(learned._vague))
    assert np.all(np.linalg.eigvalsh(learned._covariance) > -1e-9)


def test_widths_that_a_forward_is_padded_to_cost_what_the_padded_one_costs():
    padded = CostCurve.fit([(1, 10.0), (64, 20.0)], buckets=(1, 8, 32))
    learned = ForwardTime(padded, widest=64)
    for _ in range(40):
        learned.observe(1, 100, 0, 0.010)
        learned.observe(2, 100, 100, 0.030)
    times = learned.times(1, 39)
    assert times[1] == pytest.approx(times[7])
    assert times[8] == pytest.approx(times[31])
    assert times[1] == pytest.approx(30.0, rel=0.1)
    for _ in range(40):
        learned.observe(2, 100, 100, 0.030)
        learned.observe(9, 100, 800, 0.060)
    times = learned.times(1, 39)
    assert times[7] == pytest.approx(30.0, rel=0.1), "8 tokens are padded as 2 are"
    assert times[8] == pytest.approx(60.0, rel=0.1), "9 tokens are not"


def test_a_plain_step_is_never_free():
    """Where only long contexts were seen, a line through them may lead below nothing at a short one."""
    learned = ForwardTime(GPU, widest=64)
    for _ in range(200):
        learned.observe(1, 100_000, 0, 1.0)
        learned.observe(1, 50_000, 0, 0.1)
    assert learned.times(1, 8, context=0)[0] > 0.0


def test_beyond_the_widest_forward_time_goes_on_growing():
    times = ForwardTime(CostCurve.named("mid"), widest=4).times(4, 6)
    assert len(times) == 7
    assert np.all(np.diff(times) > 0)


def test_a_step_without_time_says_nothing():
    learned = ForwardTime(GPU, widest=4)
    learned.observe(1, 10, 0, 0.0)
    assert learned.steps == 0
