"""Damaged records of every format: an error that says what is wrong, or sessions; never a crash."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from trace_samples import SAMPLES

from suffixspec.errors import InputError
from suffixspec.trace import read_sessions, write_sessions

_VALUES = (
    None,
    True,
    7,
    -1.5,
    "",
    "x",
    [],
    {},
    [1],
    [None],
    ["x"],
    [[]],
    [{}],
    {"a": 1},
    {"type": "text"},
    10**30,
)
_ROUNDS = 20
_RECORDS = {name: sample.text.strip() for name, sample in SAMPLES.items() if sample.text.lstrip()[0] in "{["}


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every value inside a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield value, key
        yield from _places(item)


def _damaged(text: str, random: Random) -> str:
    """Return the log with one to three values of one record removed or replaced."""
    try:
        records = [json.loads(text)]
    except ValueError:
        records = [json.loads(line) for line in text.splitlines()]
    for _ in range(random.randint(1, 3)):
        container, key = random.choice(list(_places(random.choice(records))) or [(records, 0)])
        if random.random() < 0.3:
            del container[key]
        else:
            container[key] = json.loads(json.dumps(random.choice(_VALUES)))
        records = records or [None]
    return "\n".join(map(json.dumps, records))


@pytest.mark.parametrize("name", _RECORDS)
def test_damage_never_crashes(name: str, tmp_path: Path) -> None:
    """Whatever a record holds, reading gives sessions or an InputError, and skipping gives sessions."""
    for seed in range(_ROUNDS):
        text = _damaged(_RECORDS[name], Random(f"{name} {seed}"))
        path = tmp_path / "log"
        path.write_text(text, encoding="utf-8")
        problem = f"{path}:"
        try:
            try:
                list(read_sessions(path))
            except InputError as error:
                problem = str(error)
            assert problem.startswith(f"{path}:"), "the error should name the file"
            sessions = list(read_sessions(path, skip_bad=True))
            write_sessions(tmp_path / "out", sessions)
            if sessions:
                assert list(read_sessions(tmp_path / "out")) == sessions
        except Exception:
            print(f"sample {name}, seed {seed}: {text}")
            raise
