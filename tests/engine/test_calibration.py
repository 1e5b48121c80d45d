"""What the engine tells its drafter about a turn: its temperature, and whether to learn from it."""

import pytest

from suffixspec.draft import IndexDrafter
from suffixspec.engine import Engine

from .tiny import EOS, TOKENIZER, prompt

TEMPERATURES = (0.0, 0.3, 0.8, 1.5)
OPTIONS = {"max_tokens": 12, "logit_bias": {EOS: -100.0}, "seed": 1}


def states(drafter: IndexDrafter) -> list[bytes]:
    return [drafter.calibration_at(temperature).cells.tobytes() for temperature in TEMPERATURES]


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("lenience", [1.0, 0.5])
def test_a_turn_feeds_the_calibration_of_its_temperature_unless_lenient(tiny_target, temperature, lenience):
    """Exact turns change the calibration of their own range of temperatures; lenient ones change none."""
    drafter = IndexDrafter()
    engine = Engine(tiny_target, TOKENIZER, drafter=drafter, kv_bytes=1 << 26)
    before = states(drafter)
    session = engine.session("s")
    session.generate(prompt(1, 60) * 2, temperature=temperature, lenience=lenience, **OPTIONS)
    changed = [t for t, a, b in zip(TEMPERATURES, before, states(drafter), strict=True) if a != b]
    assert changed == ([temperature] if lenience == 1.0 else [])
    session.generate(prompt(1, 60) * 2, temperature=temperature, **OPTIONS)
    assert states(drafter)[TEMPERATURES.index(temperature)] != before[TEMPERATURES.index(temperature)]
