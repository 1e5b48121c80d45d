"""The server that ``bench.server`` measures: ``python -m bench.serving``, a process of its own.

One target behind two services on two ports: drafting on, and off. Everything else is the same. It says in a line
of JSON where they listen, and then answers each line that it is sent with what has happened so far: the clocks
below, and the forwards since the last line.
"""

import argparse
import json
import sys
import threading
import time
from typing import Any

from suffixspec.draft.prior import find_prior
from suffixspec.engine import Engine
from suffixspec.native.warm_up import warm_up
from suffixspec.server.apart_drafter import ApartDrafter
from suffixspec.server.command import listen
from suffixspec.server.http_server import HttpServer
from suffixspec.server.service import Service
from suffixspec.server.settings import Settings
from suffixspec.target.load import load_target
from suffixspec.target.model import Target
from suffixspec.verify.stopping import Stopping


class Clocks:
    """What the process has spent its time on.

    Args:
        target: its forwards are noted, as (begin, end) of a clock that all processes share.
    """

    def __init__(self, target: Target) -> None:
        self.forwards: list[tuple[float, float]] = []
        self.text_seconds = 0.0
        for name in ("prefill", "forward_tree"):
            setattr(target, name, self._noted(getattr(target, name)))
        stop = Stopping.__call__

        def timed(stopping: Stopping, token_id: int) -> Any:
            begun = time.perf_counter()
            reason = stop(stopping, token_id)
            self.text_seconds += time.perf_counter() - begun
            return reason

        Stopping.__call__ = timed  # type: ignore[method-assign]

    def _noted(self, forward: Any) -> Any:
        def noted(*arguments: Any, **more: Any) -> Any:
            begun = time.monotonic()
            result = forward(*arguments, **more)
            self.forwards.append((begun, time.monotonic()))
            return result

        return noted

    def take(self) -> dict[str, Any]:
        """Seconds, those of a CPU by thread, and the forwards since the last call."""
        forwards, self.forwards = self.forwards, []
        # An event loop for each port, and the threads that prepare requests: not the schedulers', whose work is
        # busy time.
        cpu: dict[str, float] = {}
        for one in threading.enumerate():
            name = "readers" if one.name.startswith("suffixspec reader") else one.name
            if one.ident is not None and name.split()[0] in {"readers", "serve"}:
                seconds = time.clock_gettime(time.pthread_getcpuclockid(one.ident))
                cpu[name] = cpu.get(name, 0.0) + seconds
        return {"forwards": forwards, "text_seconds": self.text_seconds, "cpu_seconds": cpu}


def main() -> None:
    """Serve until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m bench.serving", description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--max-nodes", type=int, default=32)
    args = parser.parse_args()
    warm_up()
    target, tokenizer = load_target(args.model)
    cost = target.measure_cost()
    prior = find_prior(tokenizer)
    clocks = Clocks(target)
    servers = []
    for drafting in (True, False):
        drafter = ApartDrafter(max_nodes=args.max_nodes, prior=prior)
        engine = Engine(
            target, tokenizer, drafter=drafter, cost=cost, max_nodes=args.max_nodes, kv_bytes=3 << 30
        )
        service = Service(engine, Settings(drafting=drafting, sampling={"temperature": 0.0}))
        socket = listen("127.0.0.1", 0)
        port = socket.getsockname()[1]
        server = HttpServer(service, port=port)
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [socket]}, name=f"serve {port}", daemon=True
        )
        thread.start()
        servers.append((server, thread, port))
    while not all(server.started for server, _, _ in servers):
        time.sleep(0.01)
    hello = {
        "drafting": servers[0][2],
        "plain": servers[1][2],
        "model": target.name,
        "dtype": str(target.dtype).removeprefix("torch."),
        "attention": target.attention,
        "t1_ms": {length: curve.t1_ms for length, curve in cost.curves},
    }
    say(hello)
    for _ in sys.stdin:
        say(clocks.take())
    for server, thread, _ in servers:
        server.should_exit = True
        thread.join(60)


def say(value: dict[str, Any]) -> None:
    """A line for ``bench.server``."""
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
