"""A forward over a tree gives every node the logits that plain decoding gives its path; nothing rejected stays."""

import copy

import pytest
import torch

from suffixspec.errors import SuffixspecError
from suffixspec.target.cache import KVCache
from suffixspec.target.model import ContextLimitError, Target

from .families import (
    CASES,
    VOCAB,
    WINDOW,
    path_to,
    plain_logits,
    random_tree,
    tiny_model,
)

EXACT = 1e-9


def assert_tree_is_plain(
    target: Target, cache: KVCache, context: list[int], ids: list[int], parents: list[int]
) -> None:
    """Every row of the tree's forward equals the last row of a plain forward over the context and the path."""
    logits = target.forward_tree(cache, torch.tensor(ids), torch.tensor(parents))
    assert logits.shape == (len(ids), VOCAB)
    for node in range(len(ids)):
        path = [ids[i] for i in path_to(parents, node)]
        off = (logits[node] - plain_logits(target.model, context + path)[-1]).abs().max()
        assert off < EXACT, f"node {node} of {parents} behind {len(context)} tokens is off by {off:.2g}"


def prefill(target: Target, cache: KVCache, ids: list[int], chunk: int) -> None:
    for start in range(0, len(ids), chunk):
        target.prefill(cache, torch.tensor(ids[start : start + chunk]))


@pytest.mark.parametrize(("family", "attention"), CASES)
@pytest.mark.parametrize("prompt", [WINDOW - 1, WINDOW, WINDOW + 1, 5 * WINDOW])
def test_every_node_has_the_logits_of_its_path(family: str, attention: str, prompt: int) -> None:
    """A tree behind a prompt that was prefilled in chunks, on both sides of the window's edge."""
    generator = torch.Generator().manual_seed(prompt)
    target = Target(tiny_model(family, attention))
    context = torch.randint(3, VOCAB, (prompt,), generator=generator).tolist()
    cache = target.new_cache(prompt + 12)
    prefill(target, cache, context, chunk=5)
    assert cache.length == prompt
    assert_tree_is_plain(target, cache, context, *random_tree(generator, 12))
    assert cache.length == prompt


@pytest.mark.parametrize(("family", "attention"), CASES)
def test_accepted_paths_stay_and_rejected_nodes_leave_no_trace(family: str, attention: str) -> None:
    """Draft, keep a random path (often only the pending token), cut back now and then, grow: always plain."""
    generator = torch.Generator().manual_seed(1)

    def below(n: int) -> int:
        return int(torch.randint(0, n, (), generator=generator))

    target = Target(tiny_model(family, attention), capacity_step=1)
    context = torch.randint(3, VOCAB, (5,), generator=generator).tolist()
    cache = target.new_cache(6)
    prefill(target, cache, context, chunk=2)
    for step in range(12):
        ids, parents = random_tree(generator, 1 + below(8))
        assert_tree_is_plain(target, cache, context, ids, parents)
        path = path_to(parents, below(len(ids)) if step % 3 else 0)
        cache.keep(torch.tensor(path))
        context += [ids[node] for node in path]
        assert cache.length == len(context)
        if step in (4, 8):  # from behind the window's edge to before it, and into the middle
            context = context[: 6 if step == 4 else len(context) - 2]
            cache.truncate(len(context))
        if step == 6:
            cache.reserve(cache.capacity + 20)


@pytest.mark.parametrize(("family", "attention"), CASES)
def test_prefill_gives_the_logits_of_plain_forward(family: str, attention: str) -> None:
    """All rows where asked for, else the last; chunks of one token and chunks longer than the window."""
    target = Target(tiny_model(family, attention))
    context = torch.randint(3, VOCAB, (30,), generator=torch.Generator().manual_seed(2)).tolist()
    expected = plain_logits(target.model, context)
    cache = target.new_cache(30)
    rows = [target.prefill(cache, context[:13], last_only=False)]
    rows += [target.prefill(cache, context[13:14])[None]]
    rows += [target.prefill(cache, context[14:], last_only=False)]
    assert (torch.cat(rows) - expected).abs().max() < EXACT
    cache.truncate(20)
    assert (target.prefill(cache, context[20:]) - expected[-1]).abs().max() < EXACT


@pytest.mark.parametrize(("family", "attention"), CASES)
def test_padding_changes_nothing(family: str, attention: str) -> None:
    """A tree padded to a bucket gives the same logits, finite ones, and only for its own tokens."""
    generator = torch.Generator().manual_seed(3)
    target = Target(tiny_model(family, attention), buckets=(1, 4, 16), capacity_step=1)
    context = torch.randint(3, VOCAB, (11,), generator=generator).tolist()
    cache = target.new_cache(11)
    prefill(target, cache, context, chunk=11)
    for n in (1, 2, 4, 7, 20):
        ids, parents = random_tree(generator, n)
        assert_tree_is_plain(target, cache, context, ids, parents)
        cache.keep([0])
        context += ids[:1]


@pytest.mark.parametrize(("family", "attention"), CASES)
def test_what_lies_beyond_the_length_is_never_read(family: str, attention: str) -> None:
    """Slots that are not committed may hold anything, NaN too, without and with padding."""
    generator = torch.Generator().manual_seed(4)
    context = torch.randint(3, VOCAB, (9,), generator=generator).tolist()
    for buckets in ((), (16,)):
        target = Target(tiny_model(family, attention), buckets=buckets)
        cache = target.new_cache(64)
        prefill(target, cache, context, chunk=9)
        for garbage in (1e6, float("nan")):
            for layer in cache.layers:
                layer.keys[:, :, cache.length :] = garbage
                layer.values[:, :, cache.length :] = garbage
            assert_tree_is_plain(target, cache, context, *random_tree(generator, 6))


@pytest.mark.parametrize("family", ["llama", "gemma3", "mistral"])
def test_greedy_steps_equal_generate(family: str) -> None:
    """Plain steps of width 1 write what ``model.generate`` writes."""
    target = Target(tiny_model(family, "sdpa"))
    prompt = torch.randint(3, VOCAB, (1, 6), generator=torch.Generator().manual_seed(5))
    expected = target.model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=24, do_sample=False, eos_token_id=None
    )
    cache = target.new_cache(32)
    ids = prompt[0].tolist()
    logits = target.prefill(cache, ids)
    for _ in range(24):
        ids.append(int(logits.argmax()))
        logits = target.forward_tree(cache, ids[-1:], [-1])[0]
        cache.keep([0])
    assert ids[:-1] == expected[0].tolist()[: len(ids) - 1]
    assert ids == expected[0].tolist()


def test_logits_can_be_changed_in_place_and_are_wide_enough() -> None:
    """Processors write into logits; half-precision models give float32."""
    target = Target(tiny_model("llama", "sdpa"))
    logits = target.prefill(target.new_cache(4), [5, 6])
    assert logits.dtype == torch.float64
    logits[0] = -torch.inf
    half = Target(converted("llama", torch.bfloat16))
    cache = half.new_cache(8)
    assert half.prefill(cache, [5, 6]).dtype == torch.float32
    rows = half.forward_tree(cache, [5, 6, 7], [-1, 0, 0])
    assert rows.dtype == torch.float32
    rows[0] = 0


def converted(family: str, dtype: torch.dtype) -> torch.nn.Module:
    return copy.deepcopy(tiny_model(family, "sdpa")).to(dtype)


def test_only_the_logits_that_are_needed_are_computed() -> None:
    """The output layer sees the last token of a prompt's chunk, and of a padded tree the tokens themselves."""
    target = Target(tiny_model("llama", "sdpa"), buckets=(8,))
    seen: list[int] = []
    hook = target.model.lm_head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[1]))
    try:
        cache = target.new_cache(16)
        target.prefill(cache, [5, 6, 7])
        target.prefill(cache, [5, 6, 7], last_only=False)
        target.forward_tree(cache, [5, 6, 7], [-1, 0, 0])
    finally:
        hook.remove()
    assert seen == [1, 3, 3]


def test_contexts_stop_at_the_limit_of_the_model() -> None:
    """The last position can be used; one more is an error that names the limit and leaves the cache as it was."""
    target = Target(tiny_model("llama", "sdpa"))
    cache = target.new_cache(8)
    limit = target.max_positions
    assert limit == 256
    prefill(target, cache, [5] * (limit - 2), chunk=128)
    target.forward_tree(cache, [5, 6, 7], [-1, 0, 0])
    with pytest.raises(ContextLimitError, match=f"at most {limit} tokens, .* got {limit + 1}"):
        target.forward_tree(cache, [5, 6, 7], [-1, 0, 1])
    with pytest.raises(SuffixspecError):
        target.prefill(cache, [5, 6, 7])
    assert cache.length == limit - 2


def test_bad_arguments_are_refused() -> None:
    """Each says what was expected."""
    target = Target(tiny_model("llama", "sdpa"))
    cache = target.new_cache(8)
    with pytest.raises(ValueError, match="as many parents as tokens, got 1 and 2"):
        target.forward_tree(cache, [5, 6], [-1])
    with pytest.raises(ValueError, match="expected token 1 to have a parent from -1 to 0, got 1"):
        target.forward_tree(cache, [5, 6], [-1, 1])
    with pytest.raises(ValueError, match="at least one token"):
        target.prefill(cache, [])


def test_the_fingerprint_tells_configurations_apart() -> None:
    """Equal for the same configuration, another for another dtype, attention or family."""
    targets = [
        Target(tiny_model(f, a)) for f, a in [("llama", "sdpa"), ("llama", "eager"), ("qwen2", "sdpa")]
    ]
    targets.append(Target(converted("llama", torch.float32)))
    assert len({target.fingerprint for target in targets}) == 4
    assert Target(tiny_model("llama", "sdpa")).fingerprint == targets[0].fingerprint


def test_facts_of_the_configuration() -> None:
    """What the engine asks a target about."""
    target = Target(tiny_model("llama", "sdpa"), name="tiny")
    assert (target.name, target.vocab_size, target.n_layers, target.eos_ids) == ("tiny", VOCAB, 3, (2,))
    assert target.device == torch.device("cpu")
    assert target.dtype == torch.float64
    assert target.slot_bytes * 10 == target.new_cache(10).nbytes
