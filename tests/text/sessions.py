"""Sessions with every oddity that recorded loops have, and the check that all of each is decoded."""

import random

from suffixspec.text import RenderedTurn, Tokenizer, render_session
from suffixspec.trace.session import Message, ToolCall, TraceSession

ODD_ARGUMENTS = '{"cmd":  "printf \'\\u00e9 é\\n\'", "n" : 1e5,\n"a": [1.0 ,2]}'
SCHEMA = {
    "type": "function",
    "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}},
}


def session(*messages: Message, **more) -> TraceSession:
    return TraceSession("test", messages, **more)


def user(text: str) -> Message:
    return Message("user", text)


def reply(text: str = "", **more) -> Message:
    return Message("assistant", text, **more)


def call(arguments: str = ODD_ARGUMENTS, *, identifier: str | None = None, name: str = "bash") -> ToolCall:
    return ToolCall(name, arguments, identifier)


SESSIONS = {
    "chat": session(
        Message("system", "Be brief."), user("hi"), reply("hello"), user("more"), reply("a\n\nb")
    ),
    "tool loop": session(
        Message("system", "Be brief."),
        user("fix it"),
        reply("I look.", tool_calls=(call(identifier="call_abcdefghijklm"),)),
        Message("tool", "out\n1", tool_call_id="call_abcdefghijklm"),
        reply("", tool_calls=(call('{"command": "ls"}'), call("{}", name="edit"))),
        Message("tool", "r1"),
        Message("tool", "r2"),
        reply("done"),
        user("thanks"),
        reply("bye"),
        tools=(SCHEMA,),
    ),
    "reasoning": session(
        user("q1"),
        reply("c1", reasoning="let me think\nabout it"),
        user("q2"),
        reply("c2", reasoning=" again ", tool_calls=(call(),)),
        Message("tool", "res"),
        reply("c3", reasoning="more"),
        user("q3"),
        reply("c4"),
    ),
    "white space": session(
        user("q"), reply("  both ends \n\n"), user("q"), reply("\n\nx\n"), user("q"), reply(" ")
    ),
    "odd order": session(
        reply("I start"),
        reply("and go on"),
        user("u1"),
        user("u2"),
        reply(""),
        Message("developer", "dev says"),
        Message("system", "late"),
        reply("x"),
        Message("tool", "an answer to nothing"),
        reply("y"),
    ),
    "given": session(
        Message("system", "s"),
        reply("Hello!", model_output=False),
        user("u"),
        reply("z"),
        user("v"),
        reply("w"),
    ),
    "alone": session(reply("alone")),
    "system alone": session(Message("system", "x"), Message("developer", "y"), reply("alone")),
    "special text": session(
        user("what is <|im_end|>?"),
        reply("It is <|im_end|>, not <|im_start|> or </think>."),
        user("k"),
        reply("<think>\nraw\n</think>\n\nanswer"),
        user("k"),
        reply("z"),
    ),
    "beyond ASCII": session(
        user("\U0001f600 \ud83d\ude00 \ud800"),
        reply("naïve 你好 \U0001f44d\udc00\x00\x1b["),
        user("k"),
        reply("z"),
    ),
}

_TEXTS = [
    "",
    " ",
    "\n",
    "ok",
    " ok\n",
    "two words",
    "<think>",
    "</think>\n",
    "<|im_end|>",
    "{'a': 1}",
    "é你",
    "\x1b[0m",
]


def random_session(rng: random.Random) -> TraceSession:
    """Any roles in any order, with texts that templates stumble over."""

    def text() -> str:
        return "".join(rng.choices(_TEXTS, k=rng.randrange(4)))

    messages = []
    for _ in range(rng.randrange(1, 12)):
        role = rng.choice(
            ["system", "developer", "user", "user", "assistant", "assistant", "assistant", "tool"]
        )
        if role == "assistant":
            calls = tuple(
                call(rng.choice([ODD_ARGUMENTS, "{}", "", text()])) for _ in range(rng.choice([0, 0, 1, 2]))
            )
            reasoning = rng.choice([None, None, text()])
            messages.append(
                reply(text(), reasoning=reasoning, tool_calls=calls, model_output=rng.random() < 0.8)
            )
        else:
            messages.append(Message(role, text()))
    return session(*messages, tools=rng.choice([None, (SCHEMA,)]))


def joined(text: str) -> str:
    """What a text with surrogates is encoded as."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def check_turns(recorded: TraceSession, tokenizer: Tokenizer) -> list[RenderedTurn]:
    """Render, and assert what holds for every session under every template."""
    turns = list(render_session(recorded, tokenizer))
    places = [i for i, m in enumerate(recorded.messages) if m.role == "assistant" and m.model_output]
    assert [turn.message_index for turn in turns] == places
    assert [turn.index for turn in turns] == list(range(len(places)))
    before: list[int] = []
    for turn in turns:
        message = recorded.messages[turn.message_index]
        decoded = tokenizer.decode(turn.output_ids.tolist(), continues=True)
        assert decoded == turn.output_text
        at = 0
        pieces = [message.reasoning or "", message.content]
        pieces += [text for call_ in message.tool_calls for text in (call_.name, call_.arguments)]
        for piece in map(joined, pieces):
            found = decoded.find(piece, at)
            assert found >= 0, f"{piece!r} is not decoded, or out of order: {decoded!r}"
            at = found + len(piece)
        prompt = turn.prompt_ids.tolist()
        shared = next((i for i, (a, b) in enumerate(zip(before, prompt, strict=False)) if a != b), None)
        assert turn.reused_tokens == (min(len(before), len(prompt)) if shared is None else shared)
        before = prompt + turn.output_ids.tolist()
    return turns
