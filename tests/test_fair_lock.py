"""The lock that goes to who waits, and not back to who has just had it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from suffixspec.fair_lock import FairLock


def wait_until(condition) -> None:
    """Poll; fails after ten seconds."""
    for _ in range(10_000):
        if condition():
            return
        time.sleep(0.001)
    raise AssertionError("expected it to happen within ten seconds")


def test_who_waits_has_it_before_the_one_that_takes_it_again_and_again():
    """Several wait: all of them have had it when the holder, which lets go and asks at once, has been back as often."""
    lock, had = FairLock(), []

    def wait(name: str) -> None:
        with lock:
            had.append(name)

    lock.acquire()
    first = threading.Thread(target=wait, args=("first",), daemon=True)
    first.start()
    wait_until(lock._turn.locked)
    lock.release()
    lock.acquire()
    assert had == ["first"]
    first.join()
    second = threading.Thread(target=wait, args=("second",), daemon=True)
    second.start()
    wait_until(lock._turn.locked)
    with lock:  # once more by its owner, who need not wait
        pass
    assert had == ["first"]
    lock.release()
    with lock:
        assert had == ["first", "second"]
    second.join()


def test_it_is_held_by_one_thread_until_that_has_let_go_as_often_as_it_took_it():
    """Threads that count up in two steps lose nothing."""
    lock, count = FairLock(), [0]

    def add() -> None:
        for _ in range(200):
            with lock, lock:
                seen = count[0]
                if seen % 50 == 0:
                    time.sleep(1e-5)
                count[0] = seen + 1

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(add) for _ in range(4)]:
            done.result()
    assert count[0] == 800
    with pytest.raises(RuntimeError):
        lock.release()


def test_a_thread_that_is_interrupted_where_it_gets_it_does_not_keep_it():
    """As by Ctrl-C in the moment in which the lock has been taken and nobody has been told yet."""
    lock = FairLock()
    inner = lock._lock

    class Interrupted:
        _is_owned, release = inner._is_owned, inner.release

        def acquire(self) -> None:
            inner.acquire()
            raise KeyboardInterrupt

    lock._lock = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    lock._lock = inner
    assert not inner._is_owned()
    assert not lock._turn.locked()
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(lock.acquire).result(10)
