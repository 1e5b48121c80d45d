"""Log-probabilities are the model's own."""

import math

import pytest
import torch

from suffixspec.verify.logprobs import token_logprobs


def test_log_softmax_of_raw_logits():
    """Each emitted token's value is log p under its row, beside the most probable tokens in order."""
    logits = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]).log() + 5.0
    first, second = token_logprobs(logits, [0, 1], top=2)
    assert (first.token_id, second.token_id) == (0, 1)
    assert first.logprob == pytest.approx(math.log(0.1), abs=1e-6)
    assert second.logprob == pytest.approx(math.log(0.4), abs=1e-6)
    assert [token for token, _ in first.top] == [2, 1]
    assert [value for _, value in second.top] == pytest.approx([math.log(0.5), math.log(0.4)], abs=1e-6)


def test_counts_of_alternatives():
    """0 lists none, and more than the vocabulary lists all of it."""
    logits = torch.randn(1, 4).bfloat16()
    assert token_logprobs(logits, [3])[0].top == ()
    assert len(token_logprobs(logits, [3], top=20)[0].top) == 4


def test_one_row_for_each_token():
    """Other shapes are an error."""
    with pytest.raises(ValueError, match=r"expected logits of shape \(2, V\), got \(1, 4\)"):
        token_logprobs(torch.zeros(1, 4), [0, 1])
    with pytest.raises(ValueError, match=r"expected logits of shape \(1, V\), got \(4,\)"):
        token_logprobs(torch.zeros(4), [0])
