"""What the end-to-end checks inside vLLM take for wrong; vLLM itself is not needed for that."""

from __future__ import annotations

import copy

import pytest

from bench.vllm import checks

_LEFT = {"live": 1, "busy": 1, "sessions": 2, "steps": 9, "proposed": 9, "failures": 0, "said": []}
_SEEN = {
    "proposed": 9,
    "drafted": 8,
    "accepted": 7,
    "preemptions": 2,
    "returned": 2,
    "accepted_after_return": 3,
    "moved": 2,
    "widest": 8,
    "chunks_beside": 2,
    "at_length": 1,
    "refused": 1,
    "stopped": 3,
    "held": 1,
    "sessions": 1,
    "indexed": 50,
    "context": 50,
    "unlike": 1,
}
_OUTPUTS = {"most_probable": [[1, 2], [1, 2], [1, 2]], "greedy": [[1, 2]]}


def _found(name: str) -> tuple[list[checks.Found], list[checks.Found]]:
    """The parts of a check that holds, without drafts and with them."""
    parts = []
    for part in checks.DECODED[name]:
        seen = _SEEN | {"prefix_hits": 64 if part == "prefix_on" else 0}
        twin, namespaces = (10, 1) if part == "lora_shared" else (40, 4)
        seen |= {"first_steps": 40, "again_steps": 10, "twin_steps": twin, "namespaces": namespaces}
        parts.append(copy.deepcopy({"outputs": _OUTPUTS, "seen": seen, "left": _LEFT}))
    return parts, copy.deepcopy(parts)


def _wrong(name: str, plain: list[checks.Found], drafted: list[checks.Found]) -> list[str]:
    return checks._wrong(name, plain, drafted, checks.DECODED[name])


@pytest.mark.parametrize("name", checks.DECODED)
def test_a_check_holds_where_outputs_are_equal_and_its_situation_came_about(name):
    assert _wrong(name, *_found(name)) == []


@pytest.mark.parametrize("name", checks.DECODED)
def test_other_outputs_than_without_drafts_are_wrong(name):
    plain, drafted = _found(name)
    plain[-1]["outputs"]["greedy"] = [[1, 3]]
    assert any("greedy" in one for one in _wrong(name, plain, drafted))


@pytest.mark.parametrize("name", checks.DECODED)
@pytest.mark.parametrize("what", ["proposed", "drafted", "accepted"])
def test_a_check_without_drafts_is_none(name, what):
    plain, drafted = _found(name)
    drafted[0]["seen"][what] = 0
    assert _wrong(name, plain, drafted)


@pytest.mark.parametrize("name", checks.DECODED)
@pytest.mark.parametrize("left", [{"live": 2}, {"busy": 2}, {"failures": 1}, {"said": ["failed"]}])
def test_what_is_left_behind_is_wrong(name, left):
    plain, drafted = _found(name)
    drafted[-1]["left"] |= left
    assert _wrong(name, plain, drafted)


@pytest.mark.parametrize(
    ("name", "part", "seen"),
    [
        ("edge", 0, {"at_length": 0}),
        ("edge", 0, {"refused": 0}),
        ("edge", 0, {"stopped": 0}),
        ("edge", 0, {"held": 0}),
        ("rows", 0, {"moved": 0}),
        ("rows", 0, {"widest": 7}),
        ("chunked", 0, {"chunks_beside": 0}),
        ("preemption", 0, {"preemptions": 0}),
        ("preemption", 0, {"returned": 0}),
        ("preemption", 0, {"accepted_after_return": 0}),
        ("loop", 0, {"sessions": 2}),
        ("loop", 0, {"indexed": 51}),
        ("prefix", 0, {"prefix_hits": 0}),
        ("prefix", 1, {"prefix_hits": 1}),
        ("prefix", 1, {"indexed": 80}),
        ("lora", 0, {"unlike": 0}),
        ("lora", 0, {"again_steps": 40}),
        ("lora", 0, {"twin_steps": 30}),
        ("lora", 0, {"namespaces": 1}),
        ("lora", 1, {"twin_steps": 40}),
        ("lora", 1, {"namespaces": 4}),
    ],
)
def test_a_check_whose_situation_did_not_come_about_is_none(name, part, seen):
    plain, drafted = _found(name)
    drafted[part]["seen"] |= seen
    assert _wrong(name, plain, drafted)


def test_several_greedy_outputs_of_a_prompt_are_the_greedy_one():
    plain, drafted = _found("n")
    for found in (plain, drafted):
        found[0]["outputs"]["most_probable"] = [[1, 2], [1, 2], [1, 3]]
    assert _wrong("n", plain, drafted)


def test_outputs_that_vllm_itself_has_otherwise_with_prefix_caching_are_wrong():
    plain, drafted = _found("prefix")
    for found in (plain, drafted):
        found[1]["outputs"]["greedy"] = [[4]]
    assert _wrong("prefix", plain, drafted)
