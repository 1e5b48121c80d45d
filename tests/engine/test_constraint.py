"""Constrained outputs: plain decoding's, token for token, and in fewer steps where the grammar forces tokens."""

import json
import random
import re
import sys

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers

from suffixspec.draft import EMPTY, IndexDrafter
from suffixspec.engine import Engine
from suffixspec.errors import InputError, MissingExtraError, SuffixspecError
from suffixspec.parsing import message_of, parser_for, required_call_format
from suffixspec.text import Tokenizer
from suffixspec.verify.constraint import constraint_for
from suffixspec.verify.delayed import Border
from suffixspec.verify.grammar import _unpack

from .tiny import CHATML, VOCAB, garbage, tree

pytest.importorskip("xgrammar", reason='constrained outputs need the extra "grammar"')

MERGES = (('"', "n"), ('"n', "a"), ('"na', "m"), ('"nam', "e"), (":", "Ġ"), (",", "Ġ"), ("{", '"'))
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"enum": ["alpha", "alphabet", "beta"]},
        "number of items": {"type": "integer", "minimum": 0, "maximum": 99},
        "inner": {
            "type": "object",
            "properties": {"ok": {"type": "boolean"}, "tag": {"type": "string", "maxLength": 4}},
            "required": ["ok", "tag"],
        },
    },
    "required": ["name", "number of items", "inner"],
}
FORMATS = {
    "schema": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}},
    "object": {"type": "json_object"},
    "grammar": {"type": "grammar", "grammar": 'root ::= "be" "gin "* ("é" | "è") [a-c]* ("!" | "?")'},
}
SAMPLING = {
    "greedy": {},
    "sampled": {"temperature": 1.0},
    "cool": {"temperature": 0.6, "top_k": 30, "top_p": 0.9},
    "penalties": {"repetition_penalty": 1.2, "frequency_penalty": 0.3, "logit_bias": {9: 2.0}},
}
PROMPT = list(b"write")


def json_tokenizer() -> Tokenizer:
    """As many tokens as the tiny model has, some of them across JSON's own borders."""
    vocab = {char: index for index, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for pair in MERGES:
        vocab["".join(pair)] = len(vocab)
    backend = tokenizers.Tokenizer(models.BPE(vocab, list(MERGES)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return Tokenizer(backend, name="json", template=CHATML, special={"eos_token": "<|im_end|>"})


TOKENIZER = json_tokenizer()
EOS = TOKENIZER.special_tokens["<|im_end|>"]


def engine_with(target, **more) -> Engine:
    assert TOKENIZER.vocab_size == VOCAB
    return Engine(target, TOKENIZER, kv_bytes=1 << 26, **more)


def begin(form: str, *, nodes: int = 16, costs=None, drafts: bool = True):
    """A state at the start of an output."""
    constraint = constraint_for(TOKENIZER, VOCAB, FORMATS[form])
    return constraint.begin(max_nodes=nodes, costs=lambda: costs, drafts=drafts)


def allowed(state, draft=EMPTY) -> list[set[int]]:
    """The tokens that are allowed after the context and after each node."""
    rows = state.allowed(draft, torch.zeros(len(draft) + 1, VOCAB))
    return [set((rows(node) == 0).nonzero()[:, 0].tolist()) for node in range(-1, len(draft))]


def nothing():
    """A drafter that knows nothing."""
    return garbage(0, nodes=0)


# -- lossless ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_the_output_is_that_of_constrained_plain_decoding(tiny_target, form):
    """Greedy and seeded, with drafts of every kind, right ones among them: the same tokens, and allowed ones."""
    for number, (name, options) in enumerate(SAMPLING.items()):
        more = {"max_tokens": 110 if form == "schema" else 40, "seed": number, **options}
        engine = engine_with(tiny_target)
        plain = engine.plain(PROMPT, constraint=engine.constraint(FORMATS[form]), **more)
        assert plain.counts.drafted == 0
        if form == "schema":
            assert plain.finish_reason == "stop"
            assert set(json.loads(plain.text)) == set(SCHEMA["required"])
        nodes = (1, 7, 16, 40)[number]
        drafters = {
            "nothing": nothing(),
            "suffix": IndexDrafter(max_nodes=nodes),
            "mixed": garbage(number, PROMPT + plain.token_ids, nodes=nodes),
        }
        for kind, drafter in drafters.items():
            engine = engine_with(tiny_target, drafter=drafter, max_nodes=nodes)
            session = engine.session("s")
            constraint = engine.constraint(FORMATS[form])
            for _ in range(2 if kind == "suffix" else 1):
                reply = session.generate(PROMPT, constraint=constraint, **more)
                assert reply.token_ids == plain.token_ids, f"{kind}, {form}, {name}"
            assert (reply.text, reply.finish_reason) == (plain.text, plain.finish_reason)


def test_without_the_constraint_the_output_is_another(tiny_target):
    """The test above could fail: the model writes no JSON by itself."""
    engine = engine_with(tiny_target)
    constraint = engine.constraint(FORMATS["object"])
    constrained = engine.plain(PROMPT, max_tokens=20, constraint=constraint)
    assert constrained.token_ids != engine.plain(PROMPT, max_tokens=20).token_ids


def test_forced_tokens_are_drafted(tiny_target):
    """A drafter that knows nothing: names and brackets of the schema come from the grammar, in fewer steps."""
    engine = engine_with(tiny_target, drafter=nothing())
    reply = engine.session("s").generate(PROMPT, constraint=engine.constraint(FORMATS["schema"]), seed=1)
    tokens = len(reply.token_ids)
    assert reply.finish_reason == "stop"
    assert reply.counts.steps <= 0.6 * tokens
    assert reply.counts.accepted >= 0.4 * tokens
    assert reply.token_ids[-1] == EOS
    assert reply.accepted_flags[-1], "the end is forced too"


def test_a_chat_and_several_outputs_take_a_constraint(tiny_target):
    """``chat`` and ``generate_n``; each output begins at the grammar's start."""
    engine = engine_with(tiny_target)
    constraint = engine.constraint(FORMATS["schema"])
    reply = engine.session("s").chat([{"role": "user", "content": "go"}], constraint=constraint)
    assert set(json.loads(reply.text)) == set(SCHEMA["required"])
    replies = engine.session("s").generate_n(PROMPT, 2, constraint=constraint, temperature=1.0, seed=3)
    assert all(json.loads(reply.text) for reply in replies)
    assert engine.constraint({"type": "text"}) is None


def test_a_prediction_and_a_constraint_go_together(tiny_target):
    """A predicted JSON text under its schema: the output stays, and takes fewer steps than either alone."""
    engine = engine_with(tiny_target)
    constraint = engine.constraint(FORMATS["schema"])
    plain = engine.plain(PROMPT, constraint=constraint, seed=1, temperature=1.0)
    steps = {}
    for kind, prediction in (("forced", None), ("predicted", plain.token_ids)):
        session = engine_with(tiny_target, drafter=nothing()).session("s")
        reply = session.generate(
            PROMPT, constraint=constraint, prediction_ids=prediction, seed=1, temperature=1.0
        )
        assert reply.token_ids == plain.token_ids
        steps[kind] = reply.counts.steps
    assert steps["predicted"] < steps["forced"] < len(plain.token_ids)


def test_a_required_call_is_one_whatever_the_model(tiny_target):
    """Constrained to the format of a required call, the output is read as a call of a function there is."""
    kinds = {"kind": {"enum": ["a", "b"]}, "count": {"type": "integer", "minimum": 1, "maximum": 9}}
    tools = [
        {
            "function": {
                "name": name,
                "parameters": {"type": "object", "properties": kinds, "required": [*kinds]},
            }
        }
        for name in ("read_file", "write_file")
    ]
    engine = engine_with(tiny_target)
    for choice, names in (
        ("required", {"read_file", "write_file"}),
        ({"type": "function", "function": {"name": "write_file"}}, {"write_file"}),
    ):
        constraint = engine.constraint(required_call_format(tools, choice))
        for seed in range(3):
            reply = engine.session("s").generate(PROMPT, constraint=constraint, temperature=1.0, seed=seed)
            parser = parser_for(TOKENIZER, tools=tools, prompt_text="", tool_choice=choice)
            message = message_of(parser.feed(reply.text) + parser.finish())
            (call,) = message["tool_calls"]
            assert call["function"]["name"] in names
            assert set(json.loads(call["function"]["arguments"])) == set(kinds)
            assert message["content"] is None


# -- masks and drafts -------------------------------------------------------------------------------------


def test_each_row_of_the_mask_is_that_of_the_nodes_path():
    """Over random trees, right and wrong tokens mixed: the row of each allowed node is what its path allows."""
    text = b'{"name": "alphabet", "number of items": 42, "inner": {"ok": true, "tag": "e'
    checked = 0
    for seed in range(12):
        rng = random.Random(seed)
        cut = rng.randint(0, len(text))
        state = begin("schema")
        state.accept([TOKENIZER.encode(chr(byte))[0] for byte in text[:cut]])
        drafts = garbage(seed, [*range(3), *(TOKENIZER.encode(chr(b))[0] for b in text[cut:])], nodes=14)
        draft = tree(list(drafts.script([0, 1, 2], 14)))
        before = allowed(state)
        rows = allowed(state, draft)
        assert rows[0] == before[0]
        for node in range(len(draft)):
            path = [int(draft.token_ids[i]) for i in draft.path(node)]
            other = begin("schema")
            other.accept([TOKENIZER.encode(chr(byte))[0] for byte in text[:cut]])
            try:
                other.accept(path)
            except SuffixspecError:
                continue
            checked += 1
            if path[-1] != EOS:
                assert rows[node + 1] == allowed(other)[0], f"seed {seed}, node {node}"
        assert allowed(state) == before, f"seed {seed}: the state has moved"
        state.extend(draft, 14)
        assert allowed(state) == before, f"seed {seed}: the state has moved"
    assert checked > 15


def test_what_is_forbidden_is_not_drafted_and_what_is_forced_is():
    """Of the drafter's nodes the impossible ones go, with all below them; forced texts hang on the rest."""
    state = begin("schema", nodes=40)
    quote, brace = TOKENIZER.encode('"')[0], TOKENIZER.encode("{")[0]
    draft = state.extend(tree([(-1, 7), (0, 8), (-1, brace), (2, quote), (2, 9)]), None)
    texts = [TOKENIZER.decode(path) for path in draft.paths()]
    assert '{"name": "' in texts
    assert all('{"name": "'.startswith(text) for text in texts)
    state.accept(TOKENIZER.encode('{"name": "b'))
    draft = state.extend(EMPTY, None)
    assert TOKENIZER.decode(draft.token_ids) == 'eta", "number of items": '
    state.accept(draft.token_ids.tolist())
    assert len(state.extend(EMPTY, None)) == 0, "nothing is forced: any digit may come"


def test_the_draft_keeps_its_bounds():
    """The most nodes, none in a plain step, only what pays, and no change in plain decoding."""
    draft = tree([(-1, 7)])
    assert len(begin("schema", nodes=3).extend(EMPTY, None)) == 3
    assert len(begin("schema").extend(EMPTY, 2)) == 2
    assert len(begin("schema").extend(EMPTY, 0)) == 0
    assert len(begin("schema", costs=(1 + 2.0 * np.arange(17)).astype(np.float32)).extend(EMPTY, None)) == 0
    assert begin("schema", drafts=False).extend(draft, None) is draft


def test_the_end_is_allowed_where_the_text_is_complete_and_only_there():
    """Before, no end token; behind a complete object nothing else."""
    state = begin("object")
    assert EOS not in allowed(state)[0]
    state.accept(TOKENIZER.encode('{"a": [1]}'))
    assert EOS in allowed(state)[0]
    state = begin("grammar")
    state.accept(TOKENIZER.encode("beé!"))
    assert allowed(state) == [{EOS}]
    assert state.extend(EMPTY, None).token_ids.tolist() == [EOS]
    assert allowed(state, state.extend(EMPTY, None))[0] == {EOS}


def test_special_tokens_and_control_characters_are_no_text():
    """Inside a string any text is allowed, but not a special token's, and nothing that JSON has to escape."""
    state = begin("object")
    state.accept(TOKENIZER.encode('{"a'))
    tokens = allowed(state)[0]
    assert TOKENIZER.encode("<")[0] in tokens
    assert TOKENIZER.special_tokens["<|im_start|>"] not in tokens
    for form, text in (
        ("object", '{"a'),
        ("schema", '{"name": "beta", "number of items": 1, "inner": {"ok": true, "tag": "'),
    ):
        state = begin(form)
        state.accept(TOKENIZER.encode(text))
        assert not allowed(state)[0] & {
            TOKENIZER.encode(chr(byte))[0] for byte in range(32) if chr(byte) not in "\t\n\r"
        }


def test_a_token_that_is_not_allowed_is_an_error():
    """What a processor of the user's has let through is not passed over."""
    with pytest.raises(SuffixspecError, match="that the grammar allows"):
        begin("object").accept(TOKENIZER.encode("no"))


# -- behind a token -----------------------------------------------------------------------------------------


def test_what_comes_before_the_reasonings_end_is_free(tiny_target):
    """Constrained behind a token only: drafted or not the same tokens, and behind it JSON of the schema."""
    border = TOKENIZER.special_tokens["<|im_start|>"]  # as good as any single token
    engine = engine_with(tiny_target)
    constraint = engine.constraint(FORMATS["schema"], after="<|im_start|>")
    free = engine.constraint(FORMATS["schema"])
    for seed in range(2):
        # Likely enough to come after some tokens; nothing ends before it.
        more = {"temperature": 1.0, "seed": seed, "logit_bias": {border: 4.0}, "max_tokens": 200}
        plain = engine.plain(PROMPT, constraint=constraint, **more)
        at = plain.token_ids.index(border)
        assert plain.finish_reason == "stop"
        assert json.loads(TOKENIZER.decode(plain.token_ids[at + 1 : -1]))
        assert plain.token_ids != engine.plain(PROMPT, constraint=free, **more).token_ids
        for drafter in (garbage(seed, PROMPT + plain.token_ids, nodes=20), nothing(), IndexDrafter()):
            session = engine_with(tiny_target, drafter=drafter).session("s")
            reply = session.generate(PROMPT, constraint=constraint, **more)
            assert reply.token_ids == plain.token_ids, f"seed {seed}"


def test_an_output_may_open_its_reasoning_or_not(tiny_target):
    """Only an output that begins with a certain token waits for another one: drafted or not the same tokens."""
    border, opening = TOKENIZER.special_tokens["<|im_start|>"], TOKENIZER.encode("~")[0]
    engine = engine_with(tiny_target)
    constraint = engine.constraint(FORMATS["schema"], after="<|im_start|>", opening="~")
    for bias, opens in ((90.0, True), (-90.0, False)):
        more = {"temperature": 1.0, "seed": 3, "max_tokens": 300, "logit_bias": {opening: bias, border: 4.0}}
        if opens:  # likely enough first, and not all the time
            more["logit_bias"] = {opening: 3.0, border: 4.0}
            more["seed"] = next(
                seed
                for seed in range(500)
                if engine.plain(
                    PROMPT, **{**more, "seed": seed, "max_tokens": 1}, constraint=constraint
                ).token_ids
                == [opening]
            )
        plain = engine.plain(PROMPT, constraint=constraint, **more)
        assert plain.finish_reason == "stop"
        assert (plain.token_ids[0] == opening) == opens
        start = plain.token_ids.index(border) + 1 if opens else 0
        assert set(json.loads(TOKENIZER.decode(plain.token_ids[start:-1]))) == set(SCHEMA["required"])
        wrong = [opening, *plain.token_ids] if not opens else plain.token_ids[1:]
        for number, drafter in enumerate(
            (
                garbage(1, PROMPT + plain.token_ids, nodes=20),
                garbage(2, PROMPT + plain.token_ids, PROMPT + wrong, nodes=20),
                nothing(),
                IndexDrafter(),
            )
        ):
            session = engine_with(tiny_target, drafter=drafter).session("s")
            reply = session.generate(PROMPT, constraint=constraint, **more)
            assert reply.token_ids == plain.token_ids, f"opens {opens}, drafter {number}"


def test_both_beginnings_are_drafted_apart():
    """A draft that opens the reasoning, whatever else stands beside it, and one that begins with the form."""
    border, opening = TOKENIZER.special_tokens["<|im_start|>"], TOKENIZER.encode("~")[0]
    brace, quote = TOKENIZER.encode("{")[0], TOKENIZER.encode('"')[0]
    constraint = constraint_for(TOKENIZER, VOCAB, FORMATS["schema"], after="<|im_start|>", opening="~")
    state = constraint.begin(max_nodes=8, costs=lambda: None)
    inner = allowed(begin("schema"))[0]
    opened = state.extend(tree([(-1, opening), (0, 7), (-1, brace), (1, border), (3, 9)]), None)
    assert [TOKENIZER.decode(path) for path in opened.paths()] == [TOKENIZER.decode([opening, 7, border])]
    assert allowed_rows(state, opened) == [inner | {opening}, set(range(VOCAB)), set(range(VOCAB)), inner]
    inside = state.extend(tree([(-1, brace), (0, quote), (0, 9)]), None)
    assert all('{"name": "'.startswith(TOKENIZER.decode(path)) for path in inside.paths())
    rows = allowed_rows(state, inside)
    assert rows[0] == inner | {opening}
    assert rows[1:] == allowed(begin("schema"), inside)[1:]
    assert allowed_rows(state, EMPTY) == [inner | {opening}]
    state.accept([opening, opening])  # the second one is thought, like all else
    assert allowed_rows(state, EMPTY) == [set(range(VOCAB))]
    other = constraint.begin(max_nodes=8, costs=lambda: None)
    other.accept([brace])
    assert opening not in allowed_rows(other, EMPTY)[0]


def allowed_rows(state, draft) -> list[set[int]]:
    """As ``allowed``, of a state that may give a tensor."""
    rows = state.allowed(draft, torch.zeros(len(draft) + 1, VOCAB))
    each = (
        rows[node + 1] if isinstance(rows, torch.Tensor) else rows(node) for node in range(-1, len(draft))
    )
    return [set((row == 0).nonzero()[:, 0].tolist()) for row in each]


def test_nothing_is_drafted_across_the_border():
    """Before: any draft, cut behind the border, whose row is masked already; behind it the inner constraint."""
    border, brace = TOKENIZER.special_tokens["<|im_start|>"], TOKENIZER.encode("{")[0]
    constraint = constraint_for(TOKENIZER, VOCAB, FORMATS["schema"], after="<|im_start|>")
    state = constraint.begin(max_nodes=8, costs=lambda: None)
    draft = state.extend(tree([(-1, 7), (0, border), (1, brace), (2, 9), (0, 8)]), None)
    assert sorted(TOKENIZER.decode(path) for path in draft.paths()) == sorted(
        [TOKENIZER.decode([7, border]), TOKENIZER.decode([7, 8])]
    )
    logits = torch.zeros(len(draft) + 1, VOCAB)
    rows = state.allowed(draft, logits)
    assert not logits.isinf().any()
    at = draft.token_ids.tolist().index(border)
    inner = allowed(begin("schema"))[0]
    for node in range(-1, len(draft)):
        tokens = set((rows[node + 1] == 0).nonzero()[:, 0].tolist())
        assert tokens == (inner if node == at else set(range(VOCAB)))
    state.accept([7, border, brace])
    assert TOKENIZER.decode(state.extend(EMPTY, None).token_ids).startswith('"name": "')
    with pytest.raises(InputError, match="to be one token of json, got 8"):
        constraint_for(TOKENIZER, VOCAB, FORMATS["object"], after="</think>")


@pytest.mark.parametrize("header", ["", "cf", "ccf"])
def test_the_border_is_the_token_under_its_header(header):
    """The first place where the header, in a row, and then the token have come, no new header begun between them."""
    pattern = re.compile(f"{header}[^cm]*m" if header else "m")
    border = Border(ord("m"), tuple(map(ord, header)))
    found = 0
    for seed in range(300):
        rng = random.Random(seed)
        text = "".join(rng.choice("ccfffmx") for _ in range(rng.randint(1, 16)))
        if header == "ccf":
            text = text.replace("ccc", "c")  # what repeats itself inside a header is not looked for
        place, behind = 0, None
        for number, char in enumerate(text):
            place = border.after(place, ord(char))
            if behind is None and place == border.behind:
                behind = number + 1
        match = pattern.search(text)
        assert behind == (None if match is None else match.end()), (seed, text)
        found += match is not None
    assert 9 < found < 300


def test_nothing_is_drafted_across_a_border_with_a_header():
    """The header may come before the draft, or in it: what hangs on the border is cut, and the border's row bound."""
    c, f = TOKENIZER.encode("c")[0], TOKENIZER.encode("f")[0]
    border, brace = TOKENIZER.special_tokens["<|im_start|>"], TOKENIZER.encode("{")[0]
    constraint = constraint_for(TOKENIZER, VOCAB, FORMATS["schema"], after="<|im_start|>", header="cf")
    state = constraint.begin(max_nodes=8, costs=lambda: None)
    inner, free = allowed(begin("schema"))[0], set(range(VOCAB))
    whole = [(-1, c), (0, f), (1, border), (2, brace), (-1, border), (4, 9)]
    draft = state.extend(tree(whole), None)
    assert sorted(draft.paths()) == sorted([[c, f, border], [border, 9]])
    at = [node for node, path in enumerate(paths_to(draft)) if path == [c, f, border]]
    assert [node for node, row in enumerate(allowed_rows(state, draft)[1:]) if row == inner] == at
    state.accept([border, c])
    draft = state.extend(tree([(-1, f), (0, border), (1, 9)]), None)
    assert allowed_rows(state, draft) == [free, free, inner]
    state.accept([f, border, brace])
    assert TOKENIZER.decode(state.extend(EMPTY, None).token_ids).startswith('"name": "')


def paths_to(draft) -> list[list[int]]:
    """The tokens from the root to each node."""
    paths: list[list[int]] = []
    for parent, token in zip(draft.parents.tolist(), draft.token_ids.tolist(), strict=True):
        paths.append([*(paths[parent] if parent >= 0 else []), token])
    return paths


def test_all_rows_at_once_are_the_rows_one_by_one():
    """As a device gets them: the bits of several nodes unpack to what each unpacks to alone."""
    bits = torch.randint(-(2**31), 2**31 - 1, (5, 9), dtype=torch.int32)
    together = _unpack(bits, 270)
    assert together.shape == (5, 270)
    assert torch.equal(together, torch.stack([_unpack(row, 270) for row in bits]))
    words = torch.where(together, 1, 0)[:, :32] * (2 ** torch.arange(32))
    assert torch.equal(words.sum(1), bits[:, 0].long() & 0xFFFFFFFF)


def test_of_a_long_forced_text_only_the_begin_is_cut_into_tokens():
    """A constant of a megabyte costs no step a megabyte; what is drafted is its begin, by whole tokens."""
    text = "namename" * 4000
    form = {"type": "grammar", "grammar": f'root ::= "{text}"'}
    constraint = constraint_for(TOKENIZER, VOCAB, form)
    state = constraint.begin(max_nodes=8, costs=lambda: None)
    whole = TOKENIZER.encode(text[:200])
    for _ in range(3):
        draft = state.extend(EMPTY, None)
        assert draft.token_ids.tolist() == whole[:8]
        state.accept(whole[:1])
        whole = whole[1:]
    assert max(map(len, constraint._vocabulary._memo)) <= 32 * 9


# -- formats ----------------------------------------------------------------------------------------------


def test_white_space_and_other_members():
    """By default JSON of a schema has one form; ``any_whitespace`` and "strict": false admit more."""
    spaced, more = '{ "name"', '{"other'
    loose = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}, "strict": False}}

    def takes(text: str, form, **options) -> bool:
        state = constraint_for(TOKENIZER, VOCAB, form, **options).begin(max_nodes=4, costs=lambda: None)
        try:
            state.accept(TOKENIZER.encode(text))
        except SuffixspecError:
            return False
        return True

    assert not takes(spaced, FORMATS["schema"])
    assert takes(spaced, FORMATS["schema"], any_whitespace=True)
    assert takes(spaced, FORMATS["object"])
    assert not takes(more, FORMATS["schema"])
    assert takes(more, loose)
    assert not takes("[", FORMATS["object"])


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("json", "expected response_format to be an object"),
        ({}, "one of text, json_object, json_schema, grammar, got None"),
        ({"type": "xml"}, "got 'xml'"),
        ({"type": "json_schema"}, "expected json_schema to be"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "expected json_schema to be"),
        ({"type": "json_schema", "json_schema": {"schema": {"type": "nope"}}}, "JSON schema .*nope"),
        ({"type": "grammar"}, "expected grammar to be a text"),
        ({"type": "grammar", "grammar": "root = 1"}, "grammar in EBNF that can be compiled, got: EBNF"),
    ],
    ids=str,
)
def test_a_malformed_format_is_an_input_error(form, message):
    """It says what was expected, without the place in somebody else's source."""
    with pytest.raises(InputError, match=message) as error:
        constraint_for(TOKENIZER, VOCAB, form)
    assert ".cc" not in str(error.value)


def test_without_an_end_token_nothing_is_constrained():
    """An output could not end."""
    with pytest.raises(InputError, match="expected an end token"):
        constraint_for(TOKENIZER, VOCAB, FORMATS["object"], eos_ids=())


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    """The package is optional."""
    monkeypatch.setitem(sys.modules, "xgrammar", None)
    with pytest.raises(MissingExtraError, match=r"pip install \"suffixspec\[grammar\]\""):
        constraint_for(json_tokenizer(), VOCAB, FORMATS["object"])
