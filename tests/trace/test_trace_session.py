"""Values: what counts as a turn, and which sessions are retries of one task."""

import pytest

from suffixspec.trace import Message, TraceSession

_ASK = Message("user", "Fix it.")


@pytest.mark.parametrize(
    ("session_id", "key"),
    [
        ("django__django-12143", "django__django-12143"),
        ("gpt5-output/django__django-9296", "django__django-9296"),
        ("sympy__sympy-16988#1", "sympy__sympy-16988"),
        ("sympy__sympy-16988#1#2", "sympy__sympy-16988"),
        ("runs@home/o__r-i1@default__t-0.00", "o__r-i1"),
        ("o__r-i1#2@default#3", "o__r-i1"),
        ("@scope/o__r-i1#3", "o__r-i1"),
    ],
)
def test_instance_ids_name_the_task(session_id: str, key: str) -> None:
    """An id that looks like an instance's is the task, without path, number and suffix."""
    assert key == TraceSession(session_id, (_ASK,)).task_key


def test_other_ids_leave_the_task_to_the_first_request() -> None:
    """Without an instance id, sessions with the same first user message are retries of each other."""
    system = Message("system", "You act.")
    one = TraceSession("task3/trial0", (system, _ASK))
    two = TraceSession("task3/trial1", (_ASK, Message("assistant", "Done.")))
    other = TraceSession("task3/trial0", (Message("user", "Break it."),))

    assert one.task_key == two.task_key
    assert one.task_key != other.task_key


def test_sessions_without_a_request_are_their_own_task() -> None:
    """With no user message the id itself tells tasks apart."""
    reply = Message("assistant", "Hi.")

    assert TraceSession("a", (reply,)).task_key != TraceSession("b", (reply,)).task_key


def test_turns_are_what_the_model_wrote() -> None:
    """Only assistant messages of the model itself are turns."""
    messages = (_ASK, Message("assistant", "Hi.", model_output=False), Message("assistant", "Done."))

    assert TraceSession("a", messages).turns == 1


def test_the_place_is_no_part_of_equality() -> None:
    """Two sessions with the same content are equal wherever they were read."""
    assert TraceSession("a", (_ASK,), path="x", line=1) == TraceSession("a", (_ASK,), path="y", line=2)
