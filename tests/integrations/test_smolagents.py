"""smolagents' own agents, with its Transformers model and through the server."""

import pytest

from .frameworks import needs

smolagents = needs("smolagents", "smolagents")

from suffixspec.trace import read_sessions  # noqa: E402

from .rig import bare, check_replay, saying  # noqa: E402


class Ls(smolagents.Tool):
    """Lists."""

    name = "ls"
    description = "Lists a folder."
    inputs = {"path": {"type": "string", "description": "the folder"}}  # noqa: RUF012
    output_type = "string"

    def forward(self, path: str) -> str:
        """List."""
        return f"c.py in {path}"


def served(rig) -> smolagents.OpenAIModel:
    return smolagents.OpenAIModel(
        model_id=rig.server.model_name, api_base=rig.server.base_url, api_key=rig.server.api_key
    )


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_code_agent_goes_through_the_server(rig, streamed):
    """A CodeAgent over ``OpenAIModel`` runs its code and ends; every turn reuses the one before."""
    options = {"max_steps": 4, "verbosity_level": 0, "stream_outputs": streamed}
    agent = smolagents.CodeAgent(tools=[Ls()], model=served(rig), **options)
    with saying(
        "I look.\n<code>\nprint(ls(path='a/b'))\n</code>", "Done.\n<code>\nfinal_answer('c.py')\n</code>"
    ):
        assert agent.run("what is in a/b?") == "c.py"
    rig.check_loop(2, streamed=streamed)


def test_a_tool_calling_agent_goes_through_the_server(rig):
    """A ToolCallingAgent requires calls and rewrites them in its own words: what came before them is reused."""
    agent = smolagents.ToolCallingAgent(tools=[Ls()], model=served(rig), max_steps=4, verbosity_level=0)
    with saying(bare("ls", path="a/b"), bare("ls", path="a/b/c"), bare("final_answer", answer="c.py")):
        assert agent.run("what is in a/b?") == "c.py"
    rig.check_loop(3, sessions=3, rewritten=True)


def test_the_transformers_model_is_accelerated(tmp_path):
    """A CodeAgent over a saved tiny model gets the text of smolagents' own model, and its calls are recorded."""
    transformers = pytest.importorskip("transformers")
    import torch
    from engine.tiny import CHATML, TOKENIZER, model

    from suffixspec.integrations.smolagents import TransformersModel

    folder = tmp_path / "model"
    model().to(torch.float64).save_pretrained(folder)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=TOKENIZER._backend, eos_token="<|im_end|>", chat_template=CHATML
    )
    tokenizer.save_pretrained(folder)
    options = {"device_map": "cpu", "torch_dtype": "float64", "max_new_tokens": 40, "do_sample": False}
    messages = [{"role": "user", "content": [{"type": "text", "text": "ab ab ab the the"}]}]
    mine = TransformersModel(
        str(folder), record=tmp_path / "calls.jsonl", acceleration={"measure": False}, **options
    )
    theirs = smolagents.TransformersModel(str(folder), **options)
    for _ in range(2):
        answer = mine.generate(messages)
        assert answer.content == theirs.generate(messages).content
        more = {"role": "user", "content": [{"type": "text", "text": "and the ab"}]}
        messages = [
            *messages,
            {"role": "assistant", "content": [{"type": "text", "text": answer.content}]},
            more,
        ]
    streamed = "".join(delta.content or "" for delta in mine.generate_stream(messages))
    assert streamed == theirs.generate(messages).content
    calls = mine.acceleration.calls
    assert [call_.new_tokens for call_ in calls] == [40] * 3 or all(call_.new_tokens for call_ in calls)
    assert calls[1].cached_tokens > 0
    (session,) = read_sessions(tmp_path / "calls.jsonl")
    assert session.turns == 3
    check_replay(tmp_path / "calls.jsonl", turns=3)
