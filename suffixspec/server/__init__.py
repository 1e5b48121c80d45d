"""An OpenAI- and Anthropic-compatible server for agents. Needs the extra ``serve``.

    client ─▶ app ─▶ *_wire: request → Call ─▶ scheduler ─▶ sessions ─▶ engine
    client ◀─ answer ◀─ *_wire: events → chunks ◀─┘   one thread, one step of each call in turn

A call is prepared (read, checked, rendered, encoded) in a thread of its own; the scheduler's single thread owns
everything that changes: the engine, its sessions and indexes. Events go back to the event loop, which writes them
in the form that the client's API has for them.
"""
