"""Record what an agent says to a server, then replay it: how much faster would it have run?

    python examples/record_and_replay.py [UPSTREAM]

UPSTREAM is any server of OpenAI's API; without one a small model answers in this process. From the command line:
``suffixspec record --upstream URL``, and ``suffixspec replay`` of its file.
"""

import os
import sys
import tempfile
from pathlib import Path

import openai

from suffixspec.cli import main as suffixspec
from suffixspec.integrations.local import local_server
from suffixspec.integrations.recording import recording


def main() -> None:
    """Record three turns through the proxy."""
    if len(sys.argv) > 1:
        upstream, key = sys.argv[1], os.environ.get("OPENAI_API_KEY", "none")
    else:
        server = local_server()
        upstream, key = server.base_url, server.api_key
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calls.jsonl"
        with recording(path, upstream) as url:
            client = openai.OpenAI(base_url=url, api_key=key)
            messages = []
            for request in ("Count from one to ten in words.", "Again, please.", "Once more."):
                messages.append({"role": "user", "content": request})
                answer = client.chat.completions.create(model="local", messages=messages, max_tokens=50)
                messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        suffixspec(["replay", str(path)])


if __name__ == "__main__":
    main()
