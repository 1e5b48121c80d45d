"""Random scripts of operations, run on a tree and its twin side by side, and shrunk when one fails.

An operation is a tuple: its name and its arguments, all plain values, so that a failing script can be printed
and run again as it stands.
"""

from collections.abc import Callable, Sequence

import numpy as np

from suffixspec.index.suffix_tree import SuffixTree

from .compare import assert_finds, assert_match_is, assert_same_text, assert_suffix_chain
from .oracle import CursorContract, ListTree, StringTree

Op = tuple
LARGEST = 2**31 - 1

OPERATIONS = {
    "append": 8.0,
    "extend": 2.0,
    "repeat": 3.0,
    "uncounted": 1.5,
    "end": 1.2,
    "find": 3.0,
    "suffixes": 1.5,
    "cursor": 0.3,
    "advance": 4.0,
    "feed": 1.0,
    "follow": 1.0,
    "match": 3.0,
    "reset": 0.2,
}
"""Operation → weight. ``repeat`` appends a piece of the text again, ``follow`` feeds one to a cursor."""


def alphabet(size: int, rng: np.random.Generator) -> list[int]:
    """Token ids of an alphabet; the extremes 0 and 2³¹ − 1 are in it as soon as it has two."""
    middle = rng.choice(200_000, size=size, replace=False) + 1
    ids = [int(token) for token in middle]
    ids[0] = LARGEST
    if size > 1:
        ids[1] = 0
    return ids


def random_script(seed: int, *, size: int, length: int, max_text: int = 160) -> list[Op]:
    """A script of ``length`` operations over ``size`` distinct tokens; the text stays near ``max_text``."""
    rng = np.random.default_rng([seed, size, length])
    ids = alphabet(size, rng)
    names = list(OPERATIONS)
    weights = np.array(list(OPERATIONS.values()))
    weights = weights * rng.uniform(0.2, 2.0, len(weights))
    weights /= weights.sum()
    text: list[int] = []
    cursors = 0
    script: list[Op] = []

    def fresh(most: int) -> list[int]:
        return [ids[i] for i in rng.integers(0, size, rng.integers(0, most + 1))]

    def piece(most: int) -> list[int]:
        real = [i for i, token in enumerate(text) if token >= 0]
        if not real:
            return fresh(4)
        start = int(rng.choice(real))
        cut = text[start : start + int(rng.integers(1, most + 1))]
        return cut[: next((i for i, token in enumerate(cut) if token < 0), len(cut))]

    for _ in range(length):
        name = str(rng.choice(names, p=weights))
        if name in {"append", "extend", "repeat", "uncounted", "end"} and len(text) >= max_text:
            name = "find"
        if name in {"advance", "feed", "follow", "match", "reset"} and cursors == 0:
            name = "cursor"
        which = int(rng.integers(0, max(1, cursors)))
        if name == "append":
            # Half of the time a token drawn by how often it occurs.
            token = (piece(1) if rng.random() < 0.5 else fresh(1)) or ids[:1]
            script.append(("append", token[0]))
            text += token[:1]
        elif name in {"extend", "repeat", "uncounted"}:
            block = piece(30) if name == "repeat" or rng.random() < 0.4 else fresh(8)
            script.append(("extend", tuple(block), name != "uncounted"))
            text += block
        elif name == "end":
            script.append(("end",))
            text.append(-1)
        elif name == "find":
            string = piece(10)
            if rng.random() < 0.4 and string:
                string[int(rng.integers(0, len(string)))] = ids[int(rng.integers(0, size))]
            script.append(("find", tuple(string)))
        elif name == "suffixes":
            script.append(("suffixes",))
        elif name == "cursor":
            script.append(("cursor",))
            cursors += 1
        elif name == "advance":
            script.append(
                (
                    "advance",
                    which,
                    -int(rng.integers(1, 4)) if rng.random() < 0.05 else ids[int(rng.integers(0, size))],
                )
            )
        elif name == "feed":
            script.append(("feed", which, tuple(fresh(6))))
        elif name == "follow":
            script.append(("feed", which, tuple(piece(120))))
        else:
            script.append((name, which))
    return script


def run_script(
    script: Sequence[Op],
    *,
    capacity: int = 1,
    twin_type: type[ListTree] = StringTree,
    cheap: bool = False,
    check_every: int = 1,
) -> tuple[SuffixTree, ListTree]:
    """Run a script on a fresh tree and a fresh twin; ``check()`` and compare after each operation.

    Operations on a cursor that does not exist (any more, after shrinking) are passed over. ``cheap``
    leaves out what is compared after every single operation beyond ``check()``. That looks at the whole tree:
    with ``check_every`` it comes after every so many operations only, and at the end.
    """
    tree, twin = SuffixTree(capacity=capacity), twin_type()
    cursors: list = []
    contracts: list[CursorContract] = []
    for step, op in enumerate(script, 1):
        name, arguments = op[0], op[1:]
        before = len(twin.text)
        if name == "append":
            tree.append(arguments[0])
            twin.append(arguments[0])
        elif name == "extend":
            block, counted = arguments
            tree.extend(np.array(block, np.int32), counted=counted)
            twin.extend(block, counted=counted)
        elif name == "end":
            tree.end_sequence()
            twin.end_sequence()
        elif name == "find":
            assert_finds(tree, twin, arguments[0])
        elif name == "suffixes":
            assert_suffix_chain(tree, twin, limit=200)
        elif name == "cursor":
            cursors.append(tree.cursor())
            contracts.append(CursorContract(twin))
        elif arguments[0] < len(cursors):
            cursor, contract = cursors[arguments[0]], contracts[arguments[0]]
            if name == "advance":
                cursor.advance(arguments[1])
                contract.extend([arguments[1]])
            elif name == "feed":
                cursor.extend(np.array(arguments[1], np.int32))
                contract.extend(arguments[1])
            elif name == "match":
                match = cursor.match()
                assert_match_is(tree, twin, match, contract.verify(match.length))
                if match.length:
                    string = contract.twin.fed[len(contract.twin.fed) - match.length + 1 :]
                    assert_match_is(tree, twin, tree.shorter(match), string)
            elif name == "reset":
                cursor.reset()
                contract.reset()
            else:
                raise ValueError(f"expected a known operation, got {name!r}")
        if len(twin.text) != before:
            for contract in contracts:
                contract.note_change()
        if step % check_every == 0 or step == len(script):
            tree.check()
        if not cheap:
            assert_same_text(tree, twin)
            assert_suffix_chain(tree, twin, limit=2)
    return tree, twin


def shrink(script: Sequence[Op], fails: Callable[[Sequence[Op]], bool]) -> list[Op]:
    """A script from which no operation, and no token of a block, can be taken without losing the failure."""
    script = list(script)
    size = max(1, len(script) // 2)
    while True:
        start, shorter = 0, False
        while start < len(script):
            candidate = script[:start] + script[start + size :]
            if fails(candidate):
                script, shorter = candidate, True
            else:
                start += size
        if size > 1:
            size //= 2
        elif not shorter:
            break
    for at, op in enumerate(script):
        for field, value in enumerate(op):
            position = 0
            while isinstance(value, tuple) and position < len(script[at][field]):
                block = script[at][field]
                smaller = (
                    *script[at][:field],
                    block[:position] + block[position + 1 :],
                    *script[at][field + 1 :],
                )
                if fails([*script[:at], smaller, *script[at + 1 :]]):
                    script[at] = smaller
                else:
                    position += 1
    return script


def run_or_shrink(script: Sequence[Op], run: Callable[[Sequence[Op]], object]) -> None:
    """Run a script; when it fails, fail with the shortest script that still does."""
    try:
        run(script)
    except Exception as error:

        def fails(candidate: Sequence[Op]) -> bool:
            try:
                run(candidate)
            except Exception:  # noqa: BLE001 - any failure counts
                return True
            return False

        small = shrink(script, fails)
        lines = "\n".join(f"    {op!r}," for op in small)
        raise AssertionError(f"{error}\nshortest failing script:\n[\n{lines}\n]") from error
