"""The commands with a model: chat, generate, doctor, and replay --model."""

import io
import json
import subprocess
import sys
import types

import pytest

from suffixspec import cli
from suffixspec.context_cost import ContextCost
from suffixspec.cost import CostCurve
from suffixspec.engine import Engine
from suffixspec.engine.chat_command import Conversation, accepted_spans
from suffixspec.engine.doctor_command import report
from suffixspec.text.visible import visible

from .tiny import EOS, TOKENIZER, oracle, prompt

CURVE = CostCurve.fit([(1, 10.0), (2, 11.0), (33, 20.0)])


@pytest.fixture
def loaded(engine, monkeypatch):
    """The tiny engine in place of whatever a command would load; notes what it asked for."""
    asked = []

    def from_pretrained(spec=None, **options):
        asked.append((spec, options))
        return engine

    monkeypatch.setattr(Engine, "from_pretrained", from_pretrained)
    return asked


@pytest.fixture
def loaded_target(tiny_target, monkeypatch):
    """The tiny target in place of whatever a replay would load."""
    module = types.ModuleType("suffixspec.target.load")
    module.load_target = lambda *_arguments, **_options: (tiny_target, TOKENIZER)
    monkeypatch.setitem(sys.modules, "suffixspec.target.load", module)
    monkeypatch.setattr(tiny_target, "measure_cost", lambda: ContextCost.of(CURVE), raising=False)
    return tiny_target


@pytest.mark.parametrize("command", ["chat", "generate", "doctor"])
def test_help_is_light_and_has_examples(command):
    """The help of each command loads no compiler, no torch, no transformers."""
    code = (
        "import sys\nfrom suffixspec.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "assert not {'numba', 'torch', 'transformers', 'tokenizers'} & set(sys.modules), 'heavy'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, command, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"suffixspec {command}" in done.stdout
    assert "examples:" in done.stdout


def test_importing_the_package_offers_the_engine_without_loading_it():
    """``suffixspec.Engine`` is there, and costs nothing until it is used."""
    code = (
        "import sys, suffixspec\nassert not {'numba', 'torch', 'numpy'} & set(sys.modules)\n"
        "assert suffixspec.Engine.__name__ == 'Engine'\nassert 'torch' in sys.modules\n"
        "try:\n    suffixspec.Motor\nexcept AttributeError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "module 'suffixspec' has no attribute 'Motor'\n"


# -- generate ---------------------------------------------------------------------------------------------


def test_generate_writes_the_reply_and_its_figures(loaded, engine, capsys):
    """The text on stdout, figures on stderr; the model's options are passed on."""
    arguments = ["generate", "the abc", "--max-tokens", "8", "--model", "m", "--dtype", "float64"]
    assert cli.main([*arguments, "--max-nodes", "5", "--kv-gib", "0.5", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    text = engine.tokenizer.render([{"role": "user", "content": "the abc"}], None, True)
    wanted = engine.plain(TOKENIZER.encode(text), max_tokens=8)
    assert out == wanted.text + "\n"
    assert f"output {len(wanted.token_ids)} tokens" in err
    ((spec, options),) = loaded
    assert (spec, options["dtype"], options["device"], options["max_nodes"]) == ("m", "float64", "cpu", 5)
    assert options["kv_bytes"] == 1 << 29


def test_generate_reads_stdin_and_continues_raw_text(loaded, engine, capsys, monkeypatch):
    """Without a prompt: stdin; ``--raw``: the text as it stands; ``-o json``: all about it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("the abc 12 the"))
    assert cli.main(["generate", "--raw", "--max-tokens", "6", "-o", "json", "--no-draft"]) == 0
    result = json.loads(capsys.readouterr().out)
    wanted = engine.plain(TOKENIZER.encode("the abc 12 the"), max_tokens=6)
    assert result["token_ids"] == wanted.token_ids
    assert result["text"] == wanted.text
    assert result["drafted"] == 0
    assert result["steps"] == len(wanted.token_ids)


def test_generate_writes_several_outputs(loaded, capsys):
    """``-n``: each output under its number."""
    arguments = ["generate", "go", "-n", "3", "--temperature", "1", "--seed", "4", "--max-tokens", "5"]
    assert cli.main([*arguments, "-o", "json"]) == 0
    outputs = json.loads(capsys.readouterr().out)
    assert len(outputs) == 3
    assert len({tuple(output["token_ids"]) for output in outputs}) > 1
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert all(f"--- {number} ---\n{outputs[number - 1]['text']}" in out for number in (1, 2, 3))


def test_generate_verifies_that_it_is_lossless(loaded, capsys, monkeypatch):
    """All tokens compared: 0. A token that is not plain decoding's: printed, counted, 1."""
    arguments = ["generate", "the abc", "--max-tokens", "8", "--verify-lossless"]
    assert cli.main(arguments) == 0
    assert "0 near-ties, 0 other differences" in capsys.readouterr().err
    sampled = ["--temperature", "1", "--top-k", "50"]
    assert cli.main([*arguments, *sampled, "--seed", "3", "-n", "2"]) == 0
    assert capsys.readouterr().err.count("0 near-ties, 0 other differences") == 2
    assert cli.main([*arguments, *sampled]) == 2
    assert "expected --seed with --verify-lossless" in capsys.readouterr().err

    from suffixspec.engine import lossless

    right = lossless.as_tokens
    monkeypatch.setattr(lossless, "as_tokens", lambda ids: right([*ids, 7]))  # compare with another prompt
    assert cli.main(arguments) == 1
    assert "DIFFERENCE at token 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["", "--raw"], "expected a prompt, got an empty text"),
        (["x", "--temperature", "-1"], "expected temperature"),
        (["x", "--top-p", "3"], "expected top_p"),
        (["x" * 3000], "at most 1,023 tokens"),
    ],
)
def test_bad_input_of_generate_ends_with_2(loaded, capsys, arguments, message):
    """An empty prompt, parameters out of range, a prompt that is too long: a sentence and 2."""
    assert cli.main(["generate", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("nodes", ["0", "-1", "x", "1025"])
def test_a_draft_width_out_of_range_is_wrong_usage(capsys, nodes):
    """``--max-nodes`` is a whole number from 1 to 1,024."""
    with pytest.raises(SystemExit) as ending:
        cli.main(["generate", "x", "--max-nodes", nodes])
    assert ending.value.code == 2
    assert "--max-nodes: expected" in capsys.readouterr().err


# -- chat -------------------------------------------------------------------------------------------------


def test_a_conversation_goes_on_from_reply_to_reply(loaded, engine, capsys, monkeypatch):
    """Lines of stdin are messages; each reply is the model's to all that was said before."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("the abc\n\nand 12\n/stats\n/miss\n/nonsense\n"))
    assert cli.main(["chat", "--max-tokens", "6", "--system", "be"]) == 0
    out, err = capsys.readouterr()
    session = engine.session("other")
    messages = [{"role": "system", "content": "be"}]
    written = ""
    for line in ("the abc", "and 12"):
        messages.append({"role": "user", "content": line})
        reply = session.chat(messages, max_tokens=6)
        messages.append(reply.message)
        written += visible(reply.text) + "\n"
    assert out == written
    assert "cached" in err
    assert "the last prompt continued what was seen" in err
    assert "no command /nonsense" in err


def test_quit_ends_a_conversation(loaded, capsys, monkeypatch):
    """``/quit`` ends with 0, and what follows is not read."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("/quit\nnever\n"))
    assert cli.main(["chat"]) == 0
    assert "no reply" not in capsys.readouterr().err


def test_a_conversation_survives_an_interruption_and_a_prompt_that_is_too_long(tiny_target, capsys):
    """Ctrl-C ends the reply, a message that does not fit is taken back; the conversation goes on."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
    written = []

    def interrupt(text):
        written.append(text)
        if len(written) == 2:
            raise KeyboardInterrupt

    talk = Conversation(engine, sampling={"max_tokens": 30, "logit_bias": {EOS: -100.0}}, write=interrupt)
    talk.take("the abc")
    assert "interrupted" in capsys.readouterr().err
    assert [message["role"] for message in talk.messages] == ["user", "assistant"]
    talk.take("x" * 3000)
    assert "at most 1,023 tokens" in capsys.readouterr().err
    assert len(talk.messages) == 2
    talk.take("go on")
    assert len(talk.messages) == 4
    talk.take("/reset")
    assert talk.messages == []


def test_accepted_text_is_shown_on_demand(tiny_target, capsys):
    """``/accepted`` writes the last reply again, in brackets what came from drafts; the rest is the target's."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
    ids = prompt(4, 20)
    options = {"max_tokens": 12, "logit_bias": {EOS: -100.0}}
    plain = engine.plain(ids, **options)
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, drafter=oracle(ids + plain.token_ids, width=3))
    reply = engine.session("s").generate(ids, **options)
    spans = accepted_spans(engine, reply)
    assert "".join(text for text, _ in spans) == reply.text
    assert any(accepted for _, accepted in spans)
    assert any(not accepted for _, accepted in spans)
    written = []
    talk = Conversation(engine, write=written.append)
    talk.take("/accepted")
    assert "no reply yet" in capsys.readouterr().err
    talk._last = reply
    talk.take("/accepted")
    assert "[" in "".join(written)


# -- doctor -----------------------------------------------------------------------------------------------


def test_the_doctor_says_what_is_on_and_why(tiny_target):
    """Device, dtype, attention, context, t(n), and what drafts are worth at several rates of acceptance."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, cost=CURVE)
    text = "\n".join(report(engine))
    for wanted in (
        "device      cpu",
        "dtype       float64",
        "attention",
        "1,024 tokens",
        "t(n)",
        "1.10x",
    ):
        assert wanted in text
    assert "on: drafts pay where text repeats" in text
    steep = CostCurve.fit([(1, 10.0), (2, 25.0), (33, 900.0)])
    text = "\n".join(report(Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, cost=steep)))
    assert text.count("plain steps, no draft pays") == 3
    assert "no draft will ever pay here" in text
    assert "was not measured" in report(Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26))[-1]
    assert "off: asked for" in report(engine, drafting=False)[-1]


def test_the_doctor_prints_its_report(loaded, capsys):
    """The command prints the report."""
    assert cli.main(["doctor"]) == 0
    assert "context     1,024 tokens" in capsys.readouterr().out


# -- replay -----------------------------------------------------------------------------------------------


@pytest.fixture
def trace(tmp_path):
    messages = [{"role": "user", "content": "the abc"}]
    for turn in range(3):
        messages += [
            {"role": "assistant", "content": f"abc the 12 abc {turn}"},
            {"role": "user", "content": "the abc 12 abc" if turn < 2 else "x" * 2000},
        ]
    messages.append({"role": "assistant", "content": "too long"})
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps({"session_id": "s", "messages": messages}) + "\n", encoding="utf-8")
    return str(path)


def test_a_forced_replay_measures_and_models(loaded_target, trace, capsys):
    """Figures of the turns that fit, measured and modelled, and how many were dropped."""
    assert cli.main(["replay", trace, "--forced", "-o", "json", "--model"]) == 0
    result = json.loads(capsys.readouterr().out)
    (figures,) = result["drafters"]
    assert (figures["turns"], figures["dropped_turns"]) == (3, 1)
    assert figures["accepted"] > 0
    assert figures["measured_speedup"] > 0
    assert figures["modelled_speedup"] > 1
    assert result["settings"]["max_positions"] == 1024
    assert cli.main(["replay", trace, "--forced", "--drafter", "all", "--turns", "2", "--model"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == [
        "drafter",
        "suffix",
        "ngram",
        "combined",
        "none",
    ]


def test_a_replay_where_the_model_decides_is_verified(loaded_target, trace, capsys):
    """The model's own outputs, each token compared with plain decoding."""
    arguments = ["replay", trace, "--max-tokens", "6", "--verify-lossless", "--warm", trace, "--model", "m"]
    assert cli.main(arguments) == 0
    out, err = capsys.readouterr()
    assert "1 turns dropped" in out
    assert "0 near-ties, 0 other differences" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--forced"], "expected --model with --forced"),
        (["--turns", "2"], "expected --model with --turns"),
        (["--verify-lossless"], "expected --model with --verify-lossless"),
        (["--tokenizer", "x", "--model"], "expected no --tokenizer with --model"),
        (["-o", "csv", "--model"], "expected -o table or -o json"),
        (["--forced", "--verify-lossless", "--model"], "expected --verify-lossless without --forced"),
    ],
)
def test_options_that_do_not_go_together_are_refused(trace, capsys, arguments, message):
    """Found before anything is loaded: a sentence and 2."""
    assert cli.main(["replay", trace, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_trace_of_which_nothing_fits_is_an_error(loaded_target, tmp_path, capsys):
    """No turn inside the model's context: says so."""
    path = tmp_path / "long.jsonl"
    messages = [{"role": "user", "content": "x" * 3000}, {"role": "assistant", "content": "y"}]
    path.write_text(json.dumps({"session_id": "s", "messages": messages}) + "\n", encoding="utf-8")
    assert cli.main(["replay", str(path), "--forced", "--model"]) == 2
    assert "context of 1,024 tokens, got none; 1 turns dropped" in capsys.readouterr().err
