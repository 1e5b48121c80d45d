"""Simon Willison's ``llm`` with its plug-in."""

import pytest

from .frameworks import needs

llm = needs("llm", "llm")

from .rig import call, saying  # noqa: E402


@pytest.fixture
def model(rig, monkeypatch, tmp_path):
    import suffixspec.integrations.llm as plugin

    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    monkeypatch.setattr("suffixspec.integrations.local.local_server", lambda: rig.server)
    found = []
    plugin.register_models(lambda *models: found.extend(models))
    return found


def test_a_conversation_streams_and_goes_on(rig, model):
    """Answers stream, the next turn reuses the one before, usage is told."""
    conversation = model[0].conversation()
    with saying("Hello you.", "Again: Hello you."):
        assert "".join(conversation.prompt("hi", stream=True)) == "Hello you."
        assert rig.asked(1)[0].streamed
        response = conversation.prompt("again", stream=False)
        assert response.text() == "Again: Hello you."
        assert response.usage().input > 0
    assert not rig.check_loop(2)[1].streamed


def test_tools_are_called(rig, model):
    """``llm``'s tool chain runs a Python function that the model asks for."""

    def ls(path: str) -> str:
        """List a folder."""
        return f"c.py in {path}"

    with saying("Let me see." + call("ls", path="a"), "It is c.py."):
        chain = model[0].chain("what is in a?", tools=[ls], stream=False)
        assert chain.text().endswith("It is c.py.")
    asked = rig.check_loop(2)
    assert asked[1].request["messages"][-1]["content"] == "c.py in a"


def test_llm_finds_the_plug_in():
    """An installed package registers the model by its entry point; asynchronous too."""
    from importlib.metadata import entry_points

    if not [entry for entry in entry_points(group="llm") if entry.name == "suffixspec"]:
        pytest.skip("suffixspec was installed before it had this entry point; install it again")
    assert llm.get_model("suffixspec").model_id == llm.get_async_model("suffixspec").model_id == "suffixspec"
