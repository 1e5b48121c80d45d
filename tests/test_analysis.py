"""The formulas reproduce the published values and are right at their edges."""

from fractions import Fraction

import numpy as np
import pytest

from suffixspec.analysis import (
    alpha_from_tokens,
    best_gamma,
    expected_tokens,
    guaranteed_speedup,
    is_unlimited,
    memory_floor_ms,
    operations_growth,
    pays,
    speedup,
    weight_bytes,
)


@pytest.mark.parametrize(
    ("alpha", "gamma", "c", "published"),
    [
        (0.75, 7, 0.02, 3.16),
        (0.80, 7, 0.04, 3.25),
        (0.82, 7, 0.11, 2.50),
        (0.62, 7, 0.02, 2.26),
        (0.65, 5, 0.02, 2.40),
        (0.20, 3, 0.0, 1.25),  # a bigram model as the drafter
    ],
)
def test_speedup_reproduces_the_published_table(alpha, gamma, c, published):
    """The modelled speed-up of each published (α, γ, c) agrees to two decimals."""
    assert published == round(speedup(alpha, gamma, c), 2)


@pytest.mark.parametrize(("alpha", "published"), [(0.4, 1.65), (0.6, 2.31), (0.8, 3.36), (0.9, 4.10)])
def test_expected_tokens_reproduce_the_published_values(alpha, published):
    """E[T] at γ = 4 agrees to two decimals."""
    assert published == round(expected_tokens(alpha, 4), 2)


@pytest.mark.parametrize(
    ("alpha", "gamma", "gain", "growth"),
    [
        (0.8, 5, 3.69, 1.63),
        (0.9, 10, 6.86, 1.60),
        (0.6, 2, 1.96, 1.53),
        (0.7, 3, 2.53, 1.58),
        (0.8, 2, 2.44, 1.23),
        (0.9, 2, 2.71, 1.11),
    ],
)
def test_free_drafting_reproduces_the_published_speedups_and_operations(alpha, gamma, gain, growth):
    """With a free drafter (c = ĉ = 0) speed-up and operations growth agree to two decimals."""
    assert gain == round(speedup(alpha, gamma, 0.0), 2)
    assert growth == round(operations_growth(alpha, gamma), 2)


def test_memory_floor_of_a_70b_model_on_an_h100():
    """70e9 parameters in bf16 are 140 GB, which 3.35 TB/s move in 42 ms."""
    assert weight_bytes(70e9) == 140e9
    assert round(memory_floor_ms(70e9, 3.35e12)) == 42
    assert memory_floor_ms(70e9, 3.35e12, bytes_per_param=0.5) == pytest.approx(
        memory_floor_ms(70e9, 3.35e12) / 4
    )


def test_the_ends_of_alpha_and_gamma_are_exact():
    """α = 0 gives one token, α = 1 gives γ + 1, γ = 0 gives one: without a warning and without a NaN."""
    with np.errstate(all="raise", divide="ignore", invalid="ignore"):
        assert expected_tokens(0.0, 9) == 1.0
        assert expected_tokens(1.0, 9) == 10.0
        assert expected_tokens([0.0, 0.3, 1.0], 0).tolist() == [1.0, 1.0, 1.0]
    assert speedup(0.7, 0, 0.5) == 1.0
    assert speedup(1.0, 9, 1 / 9) == 5.0


@pytest.mark.parametrize("distance", [1e-1, 1e-5, 1e-9, 1e-12, 1e-15])
def test_expected_tokens_keep_full_precision_next_to_one(distance):
    """Next to α = 1, where the quotient cancels, E[T] equals the exact sum of powers to 1e-14."""
    alpha = 1.0 - distance
    exact = float(sum(Fraction(alpha) ** i for i in range(51)))
    assert exact == pytest.approx(expected_tokens(alpha, 50), rel=1e-14)


def test_expected_tokens_equal_the_sum_of_powers_everywhere():
    """E[T] is the sum of α^i for i = 0 … γ, over a grid, broadcast in one call."""
    alphas, gammas = np.linspace(0, 1, 41), np.arange(12)
    exact = [[sum(a**i for i in range(g + 1)) for g in gammas] for a in alphas]
    np.testing.assert_allclose(expected_tokens(alphas[:, None], gammas), exact, rtol=1e-13)


def test_scalars_give_plain_numbers_and_arrays_give_arrays():
    """A caller with numbers gets a float or an int, a caller with arrays the broadcast shape."""
    assert float is type(expected_tokens(0.5, 3))
    assert int is type(best_gamma(0.5, 0.1))
    assert bool is type(pays(0.5, 0.1))
    assert speedup(np.full((3, 1), 0.5), np.arange(4), 0.1).shape == (3, 4)


def test_best_gamma_is_the_first_maximum_of_the_speedup():
    """No draft length up to the limit is faster than the best one, and none shorter is as fast."""
    alphas, costs = np.array([0.1, 0.5, 0.75, 0.9, 0.99])[:, None], np.array([0.02, 0.1, 0.4, 0.8])
    best = best_gamma(alphas, costs, max_gamma=400)
    gains = speedup(alphas[..., None], np.arange(401), costs[:, None])
    np.testing.assert_array_equal(np.argmax(gains, axis=-1), best)
    # The speed-up has a single peak, so a neighbour comparison finds it too.
    for (i, j), gamma in np.ndenumerate(best):
        assert gamma == 0 or gains[i, j, gamma] > gains[i, j, gamma - 1]
        assert gains[i, j, gamma] >= gains[i, j, gamma + 1]


def test_a_draft_pays_exactly_when_alpha_exceeds_c():
    """The best γ is 0 for α <= c and >= 1 for α > c, and then the gain is at least (1 + α) / (1 + c)."""
    for alpha, c in [(0.3, 0.3), (0.3, 0.31), (0.3, 0.29), (0.0, 0.0), (1.0, 0.999), (0.5, 2.0)]:
        assert (alpha > c) == pays(alpha, c)
        gamma = best_gamma(alpha, c)
        assert (gamma > 0) == pays(alpha, c)
        if pays(alpha, c):
            assert speedup(alpha, gamma, c) >= guaranteed_speedup(alpha, c) > 1.0


def test_free_or_perfect_drafting_has_no_best_length():
    """With c = 0, or with α = 1 and c < 1, the limit is the answer, and ``is_unlimited`` says so."""
    assert is_unlimited(0.9, 0.0)
    assert is_unlimited(1.0, 0.5)
    assert not is_unlimited(0.0, 0.0)
    assert not is_unlimited(0.9, 0.01)
    assert best_gamma(0.99, 0.0, max_gamma=32) == 32
    assert best_gamma(1.0, 0.5, max_gamma=32) == 32


def test_alpha_from_tokens_inverts_expected_tokens():
    """Feeding E[T] back gives α again, the ends included, for arrays too."""
    alphas = np.array([0.0, 1e-6, 0.2, 0.5, 0.9, 0.999999, 1.0])
    for gamma in (1, 5, 32):
        np.testing.assert_allclose(
            alpha_from_tokens(expected_tokens(alphas, gamma), gamma), alphas, atol=1e-9
        )
    assert alpha_from_tokens(1.0, 4) == 0.0
    assert alpha_from_tokens(5.0, 4) == 1.0
    assert alpha_from_tokens(1.5, 1) == pytest.approx(0.5)


def test_operations_growth_counts_the_drafter_too():
    """A drafter that works half as much as the target adds γ/2 to the γ + 1 tokens of the target."""
    assert (4 * 0.5 + 5) / expected_tokens(0.8, 4) == pytest.approx(operations_growth(0.8, 4, 0.5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_tokens(1.1, 4), "expected 0 <= alpha <= 1, got 1.1"),
        (lambda: expected_tokens(-0.1, 4), "expected 0 <= alpha <= 1, got -0.1"),
        (lambda: expected_tokens(float("nan"), 4), "expected 0 <= alpha <= 1, got nan"),
        (lambda: expected_tokens(0.5, -1), "expected gamma to be a whole number >= 0, got -1"),
        (lambda: expected_tokens(0.5, 1.5), "expected gamma to be a whole number >= 0, got 1.5"),
        (lambda: speedup(0.5, 4, -1.0), "expected a finite c >= 0, got -1.0"),
        (lambda: speedup(0.5, 4, float("inf")), "expected a finite c >= 0, got inf"),
        (lambda: best_gamma(0.5, 0.1, max_gamma=-1), "expected max_gamma >= 0, got -1"),
        (lambda: alpha_from_tokens(1.0, 0), "expected gamma >= 1, got 0"),
        (lambda: alpha_from_tokens(6.0, 4), r"expected 1 <= tokens <= gamma \+ 1"),
        (lambda: alpha_from_tokens(float("nan"), 4), r"expected 1 <= tokens <= gamma \+ 1"),
        (lambda: memory_floor_ms(0, 1e12), "expected a finite params > 0, got 0"),
        (lambda: memory_floor_ms(1e9, -1), "expected a finite bandwidth > 0, got -1"),
        (
            lambda: memory_floor_ms(1e9, 1e12, bytes_per_param=0),
            "expected a finite bytes_per_param > 0, got 0",
        ),
    ],
)
def test_values_out_of_range_are_named(call, message):
    """A value outside the model's range is refused with what was expected and what came."""
    with pytest.raises(ValueError, match=message):
        call()
