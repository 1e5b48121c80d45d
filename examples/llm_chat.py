"""Simon Willison's ``llm``: a conversation with a model of this process.

    python examples/llm_chat.py

The same from the command line: ``llm -m suffixspec "Count to ten in words."``, then ``llm -c "Again."``.
"""

import sys

import llm


def main() -> None:
    """Two turns, streamed."""
    conversation = llm.get_model("suffixspec").conversation()
    for request in ("Count from one to ten in words.", "Again, please."):
        response = conversation.prompt(request, max_tokens=60)
        for piece in response:
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write(f"\n--- {response.usage()}\n")


if __name__ == "__main__":
    main()
