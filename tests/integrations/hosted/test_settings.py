"""The settings of the proposer."""

import json

import pytest

from suffixspec.cost import CostCurve
from suffixspec.errors import InputError
from suffixspec.integrations.hosted.settings import ON_CPU, Settings


def test_nothing_said_gives_the_defaults_and_other_settings_are_left_alone():
    assert Settings.of(None) == Settings.of({}) == Settings.of({"others": {"max_nodes": 3}}) == Settings()


def test_what_is_said_is_taken():
    settings = Settings.of({"suffixspec": {"max_nodes": 64, "namespace": "team", "cost": "mid"}})
    assert (settings.max_nodes, settings.namespace) == (64, "team")
    assert settings.curve(device="gpu") == CostCurve.named("mid")


def test_a_setting_that_there_is_none_of_is_refused_with_those_that_there_are():
    with pytest.raises(InputError, match=r"among cost, max_nodes, .*draft_ms, got max_node$"):
        Settings.of({"suffixspec": {"max_node": 64}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_nodes", 0),
        ("max_nodes", 5000),
        ("max_nodes", True),
        ("max_nodes", "32"),
        ("session_bytes", 0),
        ("draft_ms", 0),
        ("draft_ms", float("nan")),
        ("namespace", ""),
        ("share_adapters", 1),
        ("draft_seeded", None),
        ("prior", "yes"),
        ("history", 7),
        ("cost", 3),
        ("draft_tokens", -1),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_name(name, value):
    with pytest.raises(InputError, match=name):
        Settings.of({"suffixspec": {name: value}})


def test_settings_are_an_object():
    with pytest.raises(InputError, match="an object of settings"):
        Settings.of({"suffixspec": ["history"]})


def test_a_cost_curve_may_be_a_file_or_written_out(tmp_path):
    points = [[1, 10.0], [2, 12.0], [9, 30.0]]
    path = tmp_path / "curve.json"
    path.write_text(json.dumps({"points": points}))
    from_file = Settings(cost=str(path)).curve(device="gpu")
    written_out = Settings(cost={"points": points}).curve(device="gpu")
    assert from_file.points == written_out.points == ((1, 10.0), (2, 12.0), (9, 30.0))
    with pytest.raises(InputError, match="cost"):
        Settings(cost={"points": "none"}).curve(device="gpu")
    with pytest.raises(InputError, match="neither"):
        Settings(cost="gpux").curve(device="gpu")


def test_without_a_cost_the_device_decides():
    assert Settings().curve(device="cpu") == ON_CPU
    assert Settings(cost="cpu").curve(device="cpu").name == "cpu"
    assert Settings().curve(device="cuda").name == "gpu"


def test_forwards_that_are_padded_are_charged_as_padded():
    curve = Settings().curve(device="cuda", widths=(16, 8))
    assert curve.buckets == (8, 16)
    assert curve.ms(3) == curve.ms(8) < curve.ms(9)


def test_the_history_folder_may_be_the_users_own(tmp_path):
    assert Settings(history=str(tmp_path)).history_folder == tmp_path
    assert Settings(history="saved").history_folder is not None
    assert Settings().history_folder is None


def test_what_leaves_a_history_first_is_chosen_as_on_the_command_line(tmp_path):
    import argparse

    from suffixspec.store.options import add_history_options, budget_of

    parser = argparse.ArgumentParser()
    add_history_options(parser)
    for chosen in ("oldest", "least-useful", None):
        options = [] if chosen is None else ["--history-eviction", chosen]
        ours = Settings.of({"suffixspec": {"history": str(tmp_path), "history_eviction": chosen}})
        assert ours.budget == budget_of(parser.parse_args(options), kept=True)


def test_an_eviction_without_a_history_is_refused_with_what_to_do():
    with pytest.raises(InputError, match=r"folder in the setting history .* name a folder or leave"):
        Settings.of({"suffixspec": {"history_eviction": "least-useful"}})


@pytest.mark.parametrize("wrong", ["newest", "", ["oldest"], 3])
def test_an_eviction_that_there_is_none_of_is_refused_with_those_that_there_are(wrong):
    with pytest.raises(InputError, match="history_eviction to be oldest or least-useful, got"):
        Settings.of({"suffixspec": {"history": "folder", "history_eviction": wrong}})
