"""Agent loops: what is prefilled, what survives a disturbance, and what is said about it."""

import asyncio
import itertools
import random
import threading

import pytest

from suffixspec.engine import ContextLengthError, Engine, OutOfMemoryError
from suffixspec.engine.prompt import render_prompt
from suffixspec.errors import InputError, SuffixspecError

from .tiny import CONTEXT, EOS, TOKENIZER, VOCAB, garbage, prompt, target

WORDS = ["the", "abc", "12", "a", "file", "of", "tests;", "def", "f(x):", "return", "x\n"]
LONG = {"max_tokens": 24, "logit_bias": {EOS: -100.0}}


def text(seed: int, words: int = 12) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(words))


def user(content: str) -> dict:
    return {"role": "user", "content": content}


def loop(session, turns: int, **options):
    """An agent loop: each reply and a result of a tool go into the next prompt."""
    messages = [{"role": "system", "content": text(0, 20)}, user(text(1))]
    for turn in range(turns):
        reply = session.chat(messages, **options)
        yield reply
        messages += [reply.message, {"role": "tool", "content": text(turn + 2)}]


def test_a_loop_prefills_each_token_once(engine, tiny_target):
    """Over ten turns each token of the last prompt goes through the model once, in one forward or another."""
    session = engine.session("loop")
    replies = list(loop(session, 10, max_tokens=12))
    prefilled = sum(tiny_target.prefills)
    assert prefilled == sum(reply.counts.prefilled for reply in replies)
    # What has KV at the end: every token but the last, pending one, was computed once and kept.
    emitted = sum(len(reply.token_ids) for reply in replies)
    (branch,) = engine.branches.of(("default", "loop"))
    through_steps = sum(reply.counts.steps + reply.counts.accepted for reply in replies)
    assert prefilled + through_steps == len(branch)
    assert emitted == through_steps
    assert len(tiny_target.prefills) == 10
    for before, reply in itertools.pairwise(replies):
        known = before.prompt_tokens + len(before.token_ids) - 1
        assert known <= reply.cached_tokens + 1 <= reply.prompt_tokens
    assert session.explain_miss() is None


def test_a_loop_writes_what_plain_decoding_writes_on_the_same_prompts(engine):
    """``engine.plain(session.prompt_ids)`` gives each turn's output, greedy and seeded."""
    for options in ({}, {"temperature": 1.0, "seed": 3}):
        session = engine.session(f"loop {options}")
        for turn, reply in enumerate(loop(session, 10, max_tokens=12, **options)):
            plain = engine.plain(session.prompt_ids, max_tokens=12, **options)
            assert reply.token_ids == plain.token_ids, f"turn {turn}, {options}"
            assert reply.text == plain.text


def test_outputs_come_back_as_they_were_produced(engine):
    """A prompt holds the ids of the earlier outputs, whatever the tokenizer makes of their text."""
    session = engine.session("loop")
    outputs = []
    for reply in loop(session, 6, max_tokens=12):
        ids = session.prompt_ids.tolist()
        for output in outputs:
            assert any(ids[i : i + len(output)] == output for i in range(len(ids)))
        assert reply.spliced == ["bytes"] * len(outputs)
        body = [token for token in reply.token_ids if token != EOS]
        if TOKENIZER.decode(body, continues=True) == reply.text and reply.text:
            outputs.append(body)
    assert outputs


def test_a_side_request_gets_a_branch_of_its_own(engine):
    """A title request in between does not cost the main loop its KV."""
    session = engine.session("main")
    messages = [user(text(1, 150))]
    first = session.chat(messages, **LONG)
    side = session.chat([user("a title for this")], max_tokens=4)
    assert side.cached_tokens < 30
    assert len(engine.branches) == 2
    miss = session.explain_miss()
    assert miss is not None
    assert miss.message == 0
    messages += [first.message, user("go on")]
    again = session.chat(messages, **LONG)
    assert again.cached_tokens >= first.prompt_tokens + len(first.token_ids) - 1
    assert again.token_ids == engine.plain(session.prompt_ids, **LONG).token_ids


def kv(branch) -> list:
    """Copies of all that a branch holds."""
    stores = [store for layer in branch.cache.layers for store in (layer.keys, layer.values)]
    return [branch.token_ids.tolist(), *(store[:, :, : len(branch)].clone() for store in stores)]


def same(a: list, b: list) -> bool:
    return a[0] == b[0] and all(bool((x == y).all()) for x, y in zip(a[1:], b[1:], strict=True))


def test_a_side_request_prefills_only_what_no_branch_holds(engine, tiny_target):
    """The common prefix is copied: forwards and tokens are those of the rest, and the main branch stays."""
    session = engine.session("main")
    shared, rest, aside = prompt(1, 60), prompt(2, 200), prompt(3, 30)
    session.generate(shared + rest, **LONG)
    (main,) = engine.branches.of(("default", "main"))
    before = kv(main)
    tiny_target.prefills.clear()
    side = session.generate(shared + aside, **LONG)
    assert tiny_target.prefills == [29]
    assert (side.cached_tokens, side.counts.prefilled, side.counts.prefill_forwards) == (60, 29, 1)
    assert same(kv(main), before)
    assert side.token_ids == engine.plain(shared + aside, **LONG).token_ids
    miss = session.explain_miss()
    assert miss.token == side.cached_tokens
    assert miss.lost_tokens == len(main) - 60
    # The main loop goes on as if nothing had been, and so does the side's own.
    again = session.generate([*before[0], 5, 6], **LONG)
    assert again.cached_tokens == len(before[0])
    assert session.explain_miss() is None
    assert again.token_ids == engine.plain([*before[0], 5, 6], **LONG).token_ids
    further = [*shared, *aside, *side.token_ids, 7]
    more = session.generate(further, **LONG)
    assert more.cached_tokens >= len(further) - 2
    assert more.token_ids == engine.plain(further, **LONG).token_ids
    engine.branches.check()


def test_side_requests_of_another_session_or_namespace_share_nothing(engine):
    """Only a session's own branches are copied from."""
    shared = prompt(1, 60)
    engine.session("s", "a").generate(shared + prompt(2, 200), max_tokens=2)
    for name, namespace in (("t", "a"), ("s", "b")):
        assert engine.session(name, namespace).generate([*shared, 9], max_tokens=2).cached_tokens == 0


def test_random_side_requests_are_plain_decodings_and_cost_what_is_new(tiny_target):
    """Over random prompts that share prefixes, in little memory: the same tokens, each prefilled or there already."""
    for seed in range(3):
        rng = random.Random(seed)
        engine = Engine(tiny_target, TOKENIZER, kv_bytes=900 * tiny_target.slot_bytes, branches_per_session=3)
        session = engine.session("s")
        texts = [prompt(seed, 40)]
        for _ in range(12):
            base = rng.choice(texts)
            ids = base[: rng.randint(1, len(base))] + prompt(rng.randrange(10**6), rng.randint(1, 120))
            ids = ids[:250]
            tiny_target.prefills.clear()
            reply = session.generate(ids, max_tokens=6, logit_bias={EOS: -100.0})
            assert sum(tiny_target.prefills) == len(ids) - 1 - reply.cached_tokens, f"seed {seed}"
            wanted = engine_free(tiny_target).plain(ids, max_tokens=6, logit_bias={EOS: -100.0})
            assert reply.token_ids == wanted.token_ids, f"seed {seed}"
            engine.branches.check()
            assert engine.branches.nbytes <= engine.branches.budget_bytes
            texts.append([*ids, *reply.token_ids])


def test_a_prompt_is_prefilled_in_chunks_with_progress(tiny_target):
    """Chunks of the given size, and a call after each with what is done of all."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, prefill_chunk=16)
    calls = []
    engine.session("s").generate(prompt(1, 50), max_tokens=2, on_prefill=lambda *call: calls.append(call))
    assert tiny_target.prefills == [16, 16, 16, 1]
    assert calls == [(16, 50), (32, 50), (48, 50), (49, 50)]


# -- disturbances -----------------------------------------------------------------------------------------


def undisturbed(engine, session, ids) -> None:
    """The session goes on as one that nothing happened to."""
    reply = session.generate(ids, **LONG)
    assert reply.token_ids == engine.plain(ids, **LONG).token_ids
    longer = [*ids, *reply.token_ids, 5, 6, 7]
    again = session.generate(longer, **LONG)
    assert again.cached_tokens >= len(ids) + len(reply.token_ids) - 1
    assert again.token_ids == engine.plain(longer, **LONG).token_ids
    engine.branches.check()


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_a_cancelled_stream_leaves_the_session_usable(engine, pieces):
    """Closed after some pieces, or never read: the next calls are what they would have been."""
    ids = prompt(20, 40)
    whole = engine.plain(ids, **LONG)
    session = engine.session("s")
    stream = session.generate(ids, stream=True, **LONG)
    seen = [next(stream) for _ in range(pieces)]
    stream.close()
    if pieces:
        assert stream.reply.finish_reason == "cancelled"
        assert whole.text.startswith("".join(seen))
        assert stream.reply.token_ids == whole.token_ids[: len(stream.reply.token_ids)]
    undisturbed(engine, session, ids)


def test_leaving_a_streams_loop_by_an_exception_cancels_it(engine):
    """An exception in the body of the loop ends the reply; the session stays usable."""
    ids = prompt(21, 40)
    session = engine.session("s")
    with pytest.raises(ZeroDivisionError), session.generate(ids, stream=True, **LONG) as stream:  # noqa: PT012
        for _ in stream:
            _ = 1 / 0
    assert stream.reply.finish_reason == "cancelled"
    undisturbed(engine, session, ids)


def test_a_new_call_cancels_an_open_stream(engine):
    """A stream that was left open ends when the session is used again."""
    ids = prompt(22, 40)
    session = engine.session("s")
    stream = session.generate(ids, stream=True, **LONG)
    next(stream)
    undisturbed(engine, session, ids)
    assert stream.reply.finish_reason == "cancelled"
    assert list(stream) == []


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_an_exception_in_the_prefills_callback_leaves_the_session_usable(tiny_target, kind):
    """What the callback raises comes out; what was prefilled stays."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, prefill_chunk=8)
    ids = prompt(23, 40)

    def callback(done, total):
        if done >= 16:
            raise kind("enough")

    session = engine.session("s")
    with pytest.raises(kind, match="enough"):
        session.generate(ids, on_prefill=callback, **LONG)
    tiny_target.prefills.clear()
    undisturbed(engine, session, ids)
    assert sum(tiny_target.prefills[:3]) == 23


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("place", ["forward", "forward after", "processor", "keep", "draft", "accept"])
@pytest.mark.parametrize("at", [1, 4])
def test_an_exception_anywhere_in_a_step_leaves_the_session_usable(tiny_target, monkeypatch, kind, place, at):
    """Wherever a step is interrupted, the session then equals one that never drafted."""
    ids = prompt(24, 40)
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
    wanted = engine.plain(ids, **LONG).token_ids
    drafter = garbage(1, ids + wanted)
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, drafter=drafter)
    session = engine.session("s")
    calls = 0

    def disturb(function, after=False):
        def disturbed(*arguments, **more):
            nonlocal calls
            calls += 1
            if calls == at and not after:
                raise kind("now")
            result = function(*arguments, **more)
            if calls == at:
                raise kind("now")
            return result

        return disturbed

    options = dict(LONG)
    with monkeypatch.context() as patch:
        if place.startswith("forward"):
            patch.setattr(tiny_target, "forward_tree", disturb(tiny_target.forward_tree, "after" in place))
        elif place == "processor":
            options["logits_processors"] = [disturb(lambda _ids, scores: scores)]
        elif place == "keep":
            from suffixspec.target.cache import KVCache

            patch.setattr(KVCache, "keep", disturb(KVCache.keep, after=at == 4))
        else:
            (drafting,) = drafter.sessions
            patch.setattr(drafting, place, disturb(getattr(drafting, place)))
        with pytest.raises(kind, match="now"):
            session.generate(ids, **options)
    (branch,) = engine.branches.of(("default", "s"))
    assert branch.token_ids.tolist() == (ids + wanted)[: len(branch)], "KV of other tokens than noted"
    assert len(drafter.sessions) == 2, "an index that may be half written is not used again"
    undisturbed(engine, session, ids)


# -- memory -----------------------------------------------------------------------------------------------


def test_branches_leave_in_the_order_of_use_when_the_budget_is_full(tiny_target):
    """The KV stays within its budget; a session whose branch has left is prefilled again, and correct."""
    slots = 40 + 2 + 33
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=2 * slots * tiny_target.slot_bytes)
    prompts = {name: prompt(30 + i, 40) for i, name in enumerate("abc")}
    for name in "aabac":
        reply = engine.session(name).generate(prompts[name], max_tokens=2)
        assert reply.token_ids == engine_free(tiny_target).plain(prompts[name], max_tokens=2).token_ids
        assert engine.branches.nbytes <= engine.branches.budget_bytes
    assert engine.session("a").generate(prompts["a"], max_tokens=2).cached_tokens == 39
    assert engine.session("b").generate(prompts["b"], max_tokens=2).cached_tokens == 0
    assert engine.branches.evicted >= 2


def engine_free(tiny_target) -> Engine:
    return Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)


def test_a_branch_beyond_the_budget_is_an_error_that_says_so(tiny_target):
    """A prompt whose KV does not fit even alone: what to raise, shorten or lower."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=50 * tiny_target.slot_bytes)
    with pytest.raises(OutOfMemoryError, match="raise kv_bytes, shorten the prompt or lower max_tokens"):
        engine.session("s").generate(prompt(1, 100))


@pytest.mark.parametrize("where", ["prefill", "forward_tree"])
def test_out_of_memory_evicts_the_other_branches_and_tries_again(tiny_target, monkeypatch, where):
    """One failure: other branches leave, the forward runs again, the output is the same."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
    engine.session("other").generate(prompt(1, 30), max_tokens=2)
    ids = prompt(2, 30)
    wanted = engine_free(tiny_target).plain(ids, **LONG).token_ids
    right = getattr(tiny_target, where)
    failures = [MemoryError("no memory")]

    def fails_once(*arguments, **more):
        if failures:
            raise failures.pop()
        return right(*arguments, **more)

    monkeypatch.setattr(tiny_target, where, fails_once)
    assert engine.session("s").generate(ids, **LONG).token_ids == wanted
    assert engine.branches.of(("default", "other")) == []
    assert engine.branches.evicted == 1


@pytest.mark.parametrize("failures", [1, 2])
def test_out_of_memory_for_a_side_requests_branch(tiny_target, monkeypatch, failures):
    """Once: other sessions' branches leave, the one that is copied from stays. Twice: it is cut back and goes on."""
    from suffixspec.target.cache import KVLayer

    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
    engine.session("other").generate(prompt(1, 30), max_tokens=2)
    session = engine.session("s")
    shared = prompt(2, 60)
    session.generate(shared + prompt(3, 200), max_tokens=2)
    (main,) = engine.branches.of(("default", "s"))
    grow, left = KVLayer.grow, [MemoryError("no memory")] * failures

    def fails(layer, capacity):
        if left:
            raise left.pop()
        grow(layer, capacity)

    monkeypatch.setattr(KVLayer, "grow", fails)
    ids = shared + prompt(4, 20)
    reply = session.generate(ids, **LONG)
    assert not left
    assert reply.cached_tokens == 60
    assert engine.branches.of(("default", "other")) == []
    branches = engine.branches.of(("default", "s"))
    assert branches[0] is main
    assert len(branches) == (2 if failures == 1 else 1)
    assert reply.token_ids == engine_free(tiny_target).plain(ids, **LONG).token_ids
    undisturbed(engine, session, ids)


def test_out_of_memory_for_a_first_branch_says_what_to_lower(tiny_target, monkeypatch):
    """No memory for a branch of its own, twice: the advice, not the allocator's error; usable afterwards."""
    from suffixspec.target.cache import KVLayer

    def fails(layer, capacity):
        raise MemoryError("no memory")

    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
    session = engine.session("s")
    ids = prompt(3, 30)
    with monkeypatch.context() as patch:
        patch.setattr(KVLayer, "grow", fails)
        with pytest.raises(OutOfMemoryError, match="lower prefill_chunk, max_nodes or kv_bytes"):
            session.generate(ids, **LONG)
    undisturbed(engine, session, ids)


def test_out_of_memory_twice_says_what_to_lower_and_leaves_the_session_usable(tiny_target, monkeypatch):
    """Where eviction does not help: an error with advice; afterwards all is as before."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
    ids = prompt(3, 30)
    session = engine.session("s")
    error = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 1 bytes")
    with monkeypatch.context() as patch:

        def fails(*arguments, **more):
            raise error

        patch.setattr(tiny_target, "forward_tree", fails)
        with pytest.raises(OutOfMemoryError, match="lower prefill_chunk, max_nodes or kv_bytes"):
            session.generate(ids, **LONG)
    undisturbed(engine, session, ids)


def test_other_errors_of_a_forward_are_not_taken_for_a_lack_of_memory(tiny_target, monkeypatch):
    """A bug is not retried."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)
    calls = []

    def fails(*arguments, **more):
        calls.append(1)
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(tiny_target, "forward_tree", fails)
    with pytest.raises(RuntimeError, match="shapes differ"):
        engine.session("s").generate([1, 2])
    assert calls == [1]


# -- limits and wrong use ---------------------------------------------------------------------------------


def test_a_prompt_over_the_models_context_is_an_error(engine):
    """A prompt without room for an output is refused, with the numbers; nothing is cut off."""
    with pytest.raises(ContextLengthError, match=r"at most 1,023 tokens .*context is 1,024\), got 1,024"):
        engine.session("s").generate(prompt(1, CONTEXT))
    with pytest.raises(ContextLengthError):
        engine.session("s").chat([user("x" * 2000)], stream=True)


def test_the_end_of_the_context_ends_the_output(tiny_target):
    """The last position is used, and none beyond it, however wide the drafts: the reason is "length"."""
    ids = prompt(1, CONTEXT - 10)
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, drafter=garbage(1, nodes=30))
    reply = engine.session("s").generate(ids, max_tokens=50, logit_bias={EOS: -100.0})
    assert len(reply.token_ids) == 10
    assert reply.finish_reason == "length"
    assert reply.token_ids == engine.plain(ids, max_tokens=10, logit_bias={EOS: -100.0}).token_ids


@pytest.mark.parametrize("ids", [[], [VOCAB], [-1], [1.5], [[1]]], ids=str)
def test_a_malformed_prompt_is_an_error(engine, ids):
    """No tokens, unknown ones, or no list of tokens: an InputError before anything happens."""
    with pytest.raises(InputError, match="expected"):
        engine.session("s").generate(ids)


@pytest.mark.parametrize("messages", ["hello", [1], [{"role": "bard", "content": [1]}]], ids=str)
def test_malformed_messages_are_an_error(engine, messages):
    """What is no conversation is an InputError."""
    with pytest.raises(InputError, match="expected"):
        engine.session("s").chat(messages)


def test_a_closed_session_is_not_used_again_and_its_name_is_free(engine):
    """Close drops the branches and ends the session; the name begins a new one."""
    session = engine.session("s")
    assert engine.session("s") is session
    session.generate(prompt(1, 10), max_tokens=2)
    session.close()
    session.close()
    assert len(engine.branches) == 0
    with pytest.raises(SuffixspecError, match="was closed"):
        session.generate(prompt(1, 10))
    assert engine.session("s") is not session


def test_namespaces_keep_sessions_of_one_name_apart(engine):
    """The same name in two namespaces: two sessions with branches and outputs of their own."""
    a, b = engine.session("s", "a"), engine.session("s", "b")
    assert a is not b
    messages = [user(text(1))]
    reply = a.chat(messages, max_tokens=8)
    messages += [reply.message, user("more")]
    assert b.chat(messages, max_tokens=2).spliced == []
    assert b.explain_miss() is None
    assert a.chat(messages, max_tokens=2).cached_tokens > 0


# -- explain_miss -----------------------------------------------------------------------------------------


def test_a_miss_is_explained_by_token_message_and_difference(engine):
    """After an edit, where the prompt departs, in which message, and what stood there on both sides."""
    session = engine.session("s")
    messages = [{"role": "system", "content": "be brief"}, user("the first file"), user("the end")]
    assert session.explain_miss() is None
    session.chat(messages, max_tokens=4)
    before = session.prompt_ids.tolist()
    assert session.explain_miss() is None
    edited = [messages[0], user("the xirst file"), messages[2]]
    session.chat(edited, max_tokens=4)
    miss = session.explain_miss()
    assert miss.token == next(
        i for i, (a, b) in enumerate(zip(before, session.prompt_ids, strict=False)) if a != b
    )
    assert (miss.message, miss.role) == (1, "user")
    assert miss.cached.startswith("first fi")
    assert miss.prompt.startswith("xirst fi")
    assert f"token {miss.token}, in message 1 (user)" in str(miss)
    assert miss.lost_tokens > 0


def test_what_a_template_rewrites_is_explained(engine):
    """A reply that comes back changed is a miss in that message."""
    session = engine.session("s")
    messages = [user("go")]
    reply = session.chat(messages, **LONG)
    messages += [{"role": "assistant", "content": "zz" + reply.text}, user("on")]
    session.chat(messages, max_tokens=2)
    miss = session.explain_miss()
    assert (miss.message, miss.role) == (1, "assistant")
    assert miss.prompt.startswith("zz")


# -- asynchronous -----------------------------------------------------------------------------------------


def test_the_asynchronous_form_gives_the_same(engine):
    """``achat`` in one piece and as a stream: what ``chat`` gives."""
    messages = [user(text(3))]
    wanted = engine.session("sync").chat(messages, **LONG)

    async def both():
        reply = await engine.session("a").achat(messages, **LONG)
        stream = await engine.session("b").achat(messages, stream=True, **LONG)
        pieces = [piece async for piece in stream]
        return reply, pieces, stream.reply

    reply, pieces, streamed = asyncio.run(both())
    assert reply.token_ids == wanted.token_ids == streamed.token_ids
    assert "".join(pieces) == wanted.text


def test_cancelling_a_task_cancels_its_reply(engine):
    """A cancelled ``achat`` ends after its step, and the session goes on."""
    session = engine.session("s")
    messages = [user(text(4))]

    async def cancelled():
        stream = await session.achat(messages, stream=True, max_tokens=500, logit_bias={EOS: -100.0})
        task = asyncio.create_task(stream.finish())
        while not session.engine.target.steps:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stream.reply.finish_reason == "cancelled"
        steps = len(session.engine.target.steps)
        await asyncio.sleep(0.02)
        assert len(session.engine.target.steps) == steps

    asyncio.run(cancelled())
    undisturbed(engine, session, prompt(5, 30))


def test_sessions_in_threads_do_not_disturb_one_another(engine):
    """Several sessions decoding at once: each writes what it writes alone."""
    prompts = {name: prompt(40 + i, 30) for i, name in enumerate("abcd")}
    wanted = {name: engine.plain(ids, **LONG).token_ids for name, ids in prompts.items()}
    got = {}

    def decode(name):
        got[name] = engine.session(name).generate(prompts[name], **LONG).token_ids

    workers = [threading.Thread(target=decode, args=(name,)) for name in prompts]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert got == wanted


def test_a_target_of_another_seed_writes_something_else():
    """The tests above could fail: another model's output differs."""
    ids = prompt(1, 30)
    outputs = {
        tuple(Engine(target(seed), TOKENIZER, kv_bytes=1 << 26).plain(ids, max_tokens=10).token_ids)
        for seed in (1, 2)
    }
    assert len(outputs) == 2


def test_a_stream_can_be_run_step_by_step(tiny_target):
    """``step`` returns after each chunk of the prompt and each step, with or without text; None at the end."""
    engine = Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26, prefill_chunk=16)
    ids = prompt(1, 50)
    stream = engine.session("s").generate(ids, stream=True, **LONG)
    assert [stream.step() for _ in range(4)] == [""] * 4
    assert tiny_target.prefills == [16, 16, 16, 1]
    assert tiny_target.steps == []
    pieces = []
    while (piece := stream.step()) is not None:
        pieces.append(piece)
        assert len(tiny_target.steps) == len(pieces) == stream.turn.counts.steps
    assert "".join(pieces) == stream.reply.text == engine.plain(ids, **LONG).text


def test_a_session_says_how_much_of_a_prompt_it_could_reuse(engine):
    """``reusable_tokens`` of a rendered prompt is what the call then finds cached, at most all but its end."""
    session = engine.session("s")
    first = session.chat([user(text(1, 40))], **LONG)
    following = [user(text(1, 40)), first.message, user("go on")]
    wanted = session.reusable_tokens(render_prompt(TOKENIZER, following, None))
    assert wanted >= first.prompt_tokens
    assert session.reusable_tokens(render_prompt(TOKENIZER, [user("else")], None)) < 20
    assert session.chat(following, **LONG).cached_tokens == wanted
