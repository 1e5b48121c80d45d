"""Drafting inside another project's engine, whichever it is: what ``vllm`` and ``sglang`` beside this have in common.

- ``settings``: what a user may say
- ``session_table``: which agent loop's index a request goes on with
- ``live_request``: what is kept of a request that runs
- ``draft_sources``: what is drafted from besides the sessions: a saved history, and the prior
- ``lifetime``: what a drafter does when its process begins, and when it ends

Importing this imports no engine. The drafter, the indexes, the calibration and the history store are those of the
project's own engine; see ``suffixspec.draft`` and ``suffixspec.store``.
"""
