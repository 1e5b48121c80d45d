"""What speculation can gain, as formulas: expected tokens, speed-up, best draft length, memory floor.

The model is that of Leviathan, Kalman and Matias (2023), "Fast Inference from Transformers via Speculative
Decoding" (ICML 2023): a draft is a chain of ``gamma`` tokens, each is accepted with the same probability
``alpha`` given that the one before it was, drafting one token takes ``c`` of a target forward, and a forward
over a whole draft takes as long as one over a single token. Where the last is not so (a CPU, a large
batch), use a cost curve instead: see ``suffixspec.cost``.

All functions are vectorised: arguments broadcast against one another like NumPy's, and the result is a
float64 array of the broadcast shape, or a plain number where all arguments are scalars. Cost: O(1) per
element unless the function says otherwise. Errors: ``ValueError``, "expected …, got …".

Example:
    >>> round(expected_tokens(0.8, 5), 2)
    3.69
    >>> round(speedup(0.75, 7, 0.02), 2)
    3.16
    >>> best_gamma(0.75, 0.02)
    9
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = float | NDArray[np.float64]
"""A number where all arguments were scalars, else a float64 array."""
Ints: TypeAlias = int | NDArray[np.int64]
"""A whole number where all arguments were scalars, else an int64 array."""
Bools: TypeAlias = bool | NDArray[np.bool_]
"""A truth value where all arguments were scalars, else a bool array."""


def expected_tokens(alpha: ArrayLike, gamma: ArrayLike) -> Floats:
    """Tokens that one target forward yields on average: E[T] = (1 − α^(γ+1)) / (1 − α).

    Equation (1) of the paper. It is the sum of α^i for i = 0 … γ: the draft's accepted prefix and the one
    token that the target adds itself. Computed without cancellation: exact to a few ulp also next to
    α = 1, where the quotient is 0 / 0 and the sum is γ + 1.

    Args:
        alpha: probability in [0, 1] that a drafted token is accepted given that its parent was.
        gamma: draft length, a whole number >= 0.
    """
    a, g = np.broadcast_arrays(_probability("alpha", alpha), _draft_length(gamma))
    # 1 − α^(γ+1) = −expm1((γ+1) log α) and log α = log1p(α − 1), where α − 1 is exact for α >= 1/2.
    distance = a - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        tokens = np.expm1((g + 1.0) * np.log1p(distance)) / distance
    return _plain(np.where(distance == 0.0, g + 1.0, tokens))


def speedup(alpha: ArrayLike, gamma: ArrayLike, c: ArrayLike) -> Floats:
    """How many times faster than plain decoding: (1 − α^(γ+1)) / ((1 − α)(γc + 1)).

    Theorem 3.8 of the paper. At γ = 0 it is 1: nothing is drafted.

    Args:
        alpha: probability in [0, 1] that a drafted token is accepted given that its parent was.
        gamma: draft length, a whole number >= 0.
        c: time to draft one token ÷ time of one target forward, >= 0. About 0 for a model-free drafter.
    """
    return _plain(expected_tokens(alpha, gamma) / (1.0 + _draft_length(gamma) * _not_negative("c", c)))


def pays(alpha: ArrayLike, c: ArrayLike) -> Bools:
    """Whether any draft length makes decoding faster: exactly when α > c.

    Corollary 3.9 of the paper; ``guaranteed_speedup`` is the gain that is then certain.
    """
    return _plain(_probability("alpha", alpha) > _not_negative("c", c))


def guaranteed_speedup(alpha: ArrayLike, c: ArrayLike) -> Floats:
    """The speed-up (1 + α) / (1 + c) of a one-token draft: a lower bound of the best one.

    Corollary 3.9 of the paper. Below 1 where α < c.
    """
    return _plain((1.0 + _probability("alpha", alpha)) / (1.0 + _not_negative("c", c)))


def best_gamma(alpha: ArrayLike, c: ArrayLike, *, max_gamma: int = 64) -> Ints:
    """The shortest draft length in 0 … ``max_gamma`` with the greatest ``speedup``.

    Section 3.5 of the paper. 0 where no draft pays (α <= c). Where drafting is free (c = 0) or nothing is
    ever rejected (α = 1 > c) every longer draft is better, and the answer is ``max_gamma``, or less where
    float64 no longer tells the lengths apart: see ``is_unlimited``.

    Cost: O(max_gamma) per element.
    """
    if max_gamma < 0:
        raise ValueError(f"expected max_gamma >= 0, got {max_gamma}")
    a, cost = _probability("alpha", alpha), _not_negative("c", c)
    gains = np.asarray(speedup(a[..., np.newaxis], np.arange(max_gamma + 1), cost[..., np.newaxis]))
    return _plain(np.argmax(gains, axis=-1))


def is_unlimited(alpha: ArrayLike, c: ArrayLike) -> Bools:
    """Whether a longer draft is always better, so that no finite γ is the best one."""
    a, cost = _probability("alpha", alpha), _not_negative("c", c)
    return _plain(((cost == 0.0) & (a > 0.0)) | ((a == 1.0) & (cost < 1.0)))


def operations_growth(alpha: ArrayLike, gamma: ArrayLike, c_hat: ArrayLike = 0.0) -> Floats:
    """Arithmetic per emitted token, relative to plain decoding: (γĉ + γ + 1) / E[T].

    Theorem 3.11 of the paper. The target works on γ + 1 tokens per forward of which E[T] are used; what is
    left over is the price in energy and, under load, in throughput.

    Args:
        alpha: probability in [0, 1] that a drafted token is accepted given that its parent was.
        gamma: draft length, a whole number >= 0.
        c_hat: arithmetic per drafted token ÷ arithmetic per target token, >= 0. 0 for a model-free drafter.
    """
    g = _draft_length(gamma)
    return _plain((g * _not_negative("c_hat", c_hat) + g + 1.0) / expected_tokens(alpha, gamma))


def alpha_from_tokens(tokens: ArrayLike, gamma: ArrayLike) -> Floats:
    """The α at which a chain of γ drafted tokens yields this many tokens per forward: the inverse of E[T].

    Cost: 60 evaluations of ``expected_tokens`` (bisection; E[T] increases strictly with α).

    Args:
        tokens: measured tokens per target forward τ (accepted + 1), in [1, γ + 1].
        gamma: draft length, a whole number >= 1.
    """
    tau, g = np.broadcast_arrays(np.asarray(tokens, np.float64), _draft_length(gamma))
    if np.any(g < 1):
        raise ValueError("expected gamma >= 1, got 0: a draft of no tokens says nothing about alpha")
    if not np.all((tau >= 1.0) & (tau <= g + 1.0)):
        raise ValueError(f"expected 1 <= tokens <= gamma + 1 (accepted + 1), got tokens = {tau}, gamma = {g}")
    low, high = np.zeros(tau.shape), np.ones(tau.shape)
    for _ in range(60):
        middle = 0.5 * (low + high)
        too_low = expected_tokens(middle, g) < tau
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    return _plain(np.where(tau == g + 1.0, 1.0, np.where(tau == 1.0, 0.0, high)))


def weight_bytes(params: ArrayLike, *, bytes_per_param: ArrayLike = 2.0) -> Floats:
    """Bytes of the weights that one forward reads: ``params`` · ``bytes_per_param``.

    Args:
        params: parameters that a token's forward uses (the active ones of a mixture of experts), > 0.
        bytes_per_param: 2 for bf16 and fp16, 4 for fp32, 1 for 8-bit, about 0.5 for 4-bit weights, > 0.
    """
    return _plain(_positive("params", params) * _positive("bytes_per_param", bytes_per_param))


def memory_floor_ms(params: ArrayLike, bandwidth: ArrayLike, *, bytes_per_param: ArrayLike = 2.0) -> Floats:
    """Least time per forward in ms at batch 1: the weights must cross the memory bus once.

    A plain token costs one forward, so this is also the floor per token; a forward that emits τ tokens
    divides it by τ. The KV cache and activations come on top.

    Args:
        params: parameters that a token's forward uses, > 0.
        bandwidth: memory bandwidth in bytes per second, > 0.
        bytes_per_param: bytes of one parameter, > 0.
    """
    seconds = weight_bytes(params, bytes_per_param=bytes_per_param) / _positive("bandwidth", bandwidth)
    return _plain(1e3 * seconds)


def _plain(values: Any) -> Any:
    """A number instead of a 0-d array, so that scalars in give a scalar out."""
    array = np.asarray(values)
    return array.item() if array.ndim == 0 else array


def _probability(name: str, value: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(value, np.float64)
    if not np.all((array >= 0.0) & (array <= 1.0)):  # false for NaN too
        raise ValueError(f"expected 0 <= {name} <= 1, got {value!r}")
    return array


def _draft_length(value: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(value, np.float64)
    if not np.all((array >= 0.0) & (array == np.floor(array)) & np.isfinite(array)):
        raise ValueError(f"expected gamma to be a whole number >= 0, got {value!r}")
    return array


def _not_negative(name: str, value: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(value, np.float64)
    if not np.all((array >= 0.0) & np.isfinite(array)):
        raise ValueError(f"expected a finite {name} >= 0, got {value!r}")
    return array


def _positive(name: str, value: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(value, np.float64)
    if not np.all((array > 0.0) & np.isfinite(array)):
        raise ValueError(f"expected a finite {name} > 0, got {value!r}")
    return array
