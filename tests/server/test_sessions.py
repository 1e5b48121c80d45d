"""Which session a call belongs to."""

import numpy as np
import pytest
from engine.tiny import EOS, TOKENIZER

from suffixspec.engine import Engine
from suffixspec.engine.prompt import render_prompt
from suffixspec.index.history import CONTEXT
from suffixspec.server.call import Prompt
from suffixspec.server.sessions import Sessions, hints_of
from suffixspec.server.system_prompt import without_billing_line

from .harness import user

SYSTEM = {"role": "system", "content": "You are an agent that fixes the abc of the 12. " * 3}


@pytest.fixture
def engine(tiny_target) -> Engine:
    return Engine(tiny_target, TOKENIZER, kv_bytes=1 << 26)


def prompt_of(*messages) -> Prompt:
    text = render_prompt(TOKENIZER, list(messages), None)
    return Prompt(list(messages), None, text, np.array(TOKENIZER.encode(text), np.int32))


def call(sessions, *messages, namespace="default", hints=()):
    """One call; the name of its session and the reply."""
    with sessions.lend(namespace, prompt_of(*messages), hints) as session:
        return session.name, session.chat(list(messages), max_tokens=4)


def test_turns_of_a_loop_share_a_session_and_other_tasks_do_not(engine):
    """Loops with one system prompt and different tasks, taking turns: each keeps its session and its KV."""
    sessions = Sessions(engine)
    loops = {task: [SYSTEM, user(f"{task} the bug")] for task in ("find", "explain", "fix")}
    names, known = {}, {}
    for turn in range(3):
        for task, messages in loops.items():
            name, reply = call(sessions, *messages)
            assert names.setdefault(task, name) == name
            if turn:
                assert reply.cached_tokens >= known[task] - 1
            known[task] = reply.prompt_tokens
            messages += [reply.message, user(f"go on {turn}")]
    assert len(set(names.values())) == len(sessions) == 3


def test_a_cut_back_loop_keeps_its_session(engine):
    """Going on from an earlier turn with another message, and starting the same task anew, is the same loop."""
    sessions = Sessions(engine)
    messages = [SYSTEM, user("task")]
    name, first = call(sessions, *messages)
    _, _second = call(sessions, *messages, first.message, user("a"))
    for branch in ([first.message, user("b")], [{"role": "assistant", "content": "edited"}, user("c")], []):
        assert call(sessions, *messages, *branch)[0] == name


def test_a_busy_session_is_not_lent_twice(engine):
    """A second call of the same loop at the same time gets a session of its own."""
    sessions = Sessions(engine)
    prompt = prompt_of(SYSTEM, user("task"))
    with sessions.lend("default", prompt) as one, sessions.lend("default", prompt) as two:
        assert one is not two
    with sessions.lend("default", prompt) as again:
        assert again in (one, two)


def test_of_sessions_that_fit_the_one_with_more_kv_is_taken(engine):
    """Two sessions of one task: a call goes on in the one that has seen more of it, whatever a hint says."""
    sessions = Sessions(engine)
    messages = [SYSTEM, user("task")]
    with sessions.lend("default", prompt_of(*messages)):
        longer, reply = call(sessions, *messages)
        messages += [reply.message, user("more of the task")]
        assert call(sessions, *messages)[0] == longer
    # Both are idle now; the first one has seen nothing of the task but was used last.
    assert len(sessions) == 2
    shorter, _ = call(sessions, SYSTEM, user("task"), hints=["session:x"])
    name, _ = call(sessions, *messages, user("end"), hints=["session:x"])
    assert name == longer
    assert shorter in {longer, name} or shorter != longer


def test_hints_take_side_requests_in_and_break_ties(engine):
    """Another opening with a known hint joins that session; without it, it begins one; four openings are enough."""
    sessions = Sessions(engine)
    main, _ = call(sessions, SYSTEM, user("task"), hints=["claude-code:1"])
    assert call(sessions, user("a title for the task"), hints=["claude-code:1"])[0] == main
    assert call(sessions, user("a title for another"))[0] != main
    assert call(sessions, user("side 3"), hints=["user:u", "claude-code:1"])[0] == main
    assert call(sessions, user("side 4"), hints=["user:u"])[0] == main
    assert call(sessions, user("side 5"), hints=["claude-code:1"])[0] != main
    assert call(sessions, SYSTEM, user("task"))[0] == main


def test_a_hint_does_not_pull_a_loop_out_of_its_session(engine):
    """Token ids decide: a loop that changes its hint with every call stays where its KV is."""
    sessions = Sessions(engine)
    other, _ = call(sessions, user("other"), hints=["session:a"])
    messages = [SYSTEM, user("task")]
    name, reply = call(sessions, *messages)
    messages += [reply.message, user("next")]
    assert call(sessions, *messages, hints=["session:a"])[0] == name != other


def test_namespaces_do_not_share_sessions(engine):
    """The same call in another namespace has a session of its own, without any KV."""
    sessions = Sessions(engine)
    one, _ = call(sessions, SYSTEM, user("task"), hints=["session:x"])
    two, reply = call(sessions, SYSTEM, user("task"), namespace="other", hints=["session:x"])
    assert one != two
    assert reply.cached_tokens == 0


def test_sessions_are_bounded(engine):
    """The least recently used idle session is closed for a new one; what it wrote stays history."""
    sessions = Sessions(engine, most=2)
    first, _ = call(sessions, user("one"))
    second, _ = call(sessions, user("two"))
    call(sessions, user("one"))
    written = history_of(engine)
    call(sessions, user("three"))
    assert len(sessions) == 2
    open_names = {name for _, name in engine._sessions}
    assert first in open_names
    assert second not in open_names
    assert history_of(engine) > written > 0
    with (
        sessions.lend("default", prompt_of(user("one"))),
        sessions.lend("default", prompt_of(user("three"))),
        sessions.lend("default", prompt_of(user("four"))),
    ):
        assert len(sessions) == 3, "lent sessions are not closed"


def history_of(engine) -> int:
    """Tokens of the namespace's history, what stands before outputs included."""
    history = engine.drafter.history
    return len(history.index("default")) if "default" in history else 0


def test_what_a_call_wrote_is_history_for_others_when_it_ends(engine):
    """Once, with its branches kept; only what the session writes later is added later."""
    sessions = Sessions(engine)
    messages = [user("one")]
    name, reply = call(sessions, *messages)
    first = history_of(engine)
    assert first > len(reply.token_ids)
    again, later = call(sessions, *messages, reply.message, user("two"))
    assert again == name
    assert later.cached_tokens >= reply.prompt_tokens
    written = history_of(engine)
    assert len(later.token_ids) < written - first <= len(later.token_ids) + CONTEXT + 1
    sessions.close()
    assert history_of(engine) == written, "no text is there twice"


def test_another_session_drafts_from_what_was_written(engine):
    """A second loop writes what the first one wrote: it takes fewer steps, while that one may go on."""
    sessions = Sessions(engine)
    more = {"max_tokens": 24, "logit_bias": {EOS: -100.0}}
    alone = engine.session("alone", "other").chat([user("one")], **more).counts.steps
    with sessions.lend("default", prompt_of(user("one"))) as one:
        one.chat([user("one")], **more)
    assert engine.session("behind").chat([user("one")], **more).counts.steps < alone


def test_sessions_that_were_idle_for_long_leave_for_a_new_one(engine):
    """Not before another one begins: until then their KV is kept."""
    sessions = Sessions(engine, idle_seconds=0.0)
    name, _ = call(sessions, user("one"))
    assert call(sessions, user("one"))[0] == name
    call(sessions, user("two"))
    assert len(sessions) == 1


def test_hints_come_in_the_order_of_trust():
    """Claude Code's header, the user id, session headers and fields, routing keys; what is no text is no hint."""
    headers = {
        "x-claude-code-session-id": "1",
        "session-id": "3",
        "session_id": "4",
        "x-session-id": "6",
        "x-session-affinity": "7",
        "x-litellm-session-id": "8",
    }
    body = {"metadata": {"user_id": "2"}, "session_id": "5", "prompt_cache_key": "9"}
    assert [hint.partition(":")[2] for hint in hints_of(headers, body)] == list("123456789")
    assert hints_of({}, {"metadata": 3, "session_id": 4, "prompt_cache_key": "x" * 1000}) == []


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("x-anthropic-billing-header: a=1; cch=2;\nYou are", "You are"),
        ("X-Anthropic-Billing-Header: a\n\nYou are", "You are"),
        ("x-anthropic-billing-header: a", ""),
        ("You are\nx-anthropic-billing-header: a", "You are\nx-anthropic-billing-header: a"),
        ("x-anthropic-billing: a\nb", "x-anthropic-billing: a\nb"),
        ("", ""),
    ],
)
def test_only_a_billing_line_at_the_head_is_left_out(text, rest):
    """Anywhere else it is the client's text."""
    assert without_billing_line(text) == rest


def test_a_new_loop_does_not_compute_the_system_prompt_again(server):
    """Its first call copies the KV that another loop of the namespace has; the output is plain decoding's."""
    ask = server.openai().chat.completions.create
    options = {"model": "m", "temperature": 0, "max_tokens": 6}
    system = {"role": "system", "content": "A long system prompt, the same for all. " * 4}
    ask(messages=[system, user("one task")], **options)
    got = ask(messages=[system, user("quite another")], **options)
    common = len(TOKENIZER.encode(render_prompt(TOKENIZER, [system], None, reply_next=False)))
    assert got.usage.prompt_tokens_details.cached_tokens >= common
    ids = TOKENIZER.encode(render_prompt(TOKENIZER, [system, user("quite another")], None))
    assert got.choices[0].message.content == server.plain(ids, max_tokens=6).text
    headers = {"X-Suffixspec-Namespace": "apart"}
    other = ask(messages=[system, user("quite another")], extra_headers=headers, **options)
    assert other.usage.prompt_tokens_details.cached_tokens == 0
    assert other.choices[0].message.content == got.choices[0].message.content
