"""Running peers beside our drafter: what is the same, and what is different.

The same for all: the token sequences (SmolLM2's tokenizer, the prompts and outputs of the record), the order
of the sessions, the acceptance rule (``suffixspec.verify.recorded``), the node budget, the clock around each
draft call and around each change of an index, and what a forward costs, t(k + 1) for k nodes of a draft.

Different, since the peers are:

* They have no cost model. They draft what their rule says, capped by the budget; only ours looks at t(n). To
  make up for it, each peer's options are chosen per trace and per objective (tokens per step at each budget,
  speed under each curve) from a grid, on every second session, and reported on the others. Ours has no
  options to choose: it runs with its defaults.
* ArcticInference registers the whole prompt of every turn as its integrations do, since each turn is a
  request of its own. That time is counted where "prompts included" is said, and not in the speeds: there it
  would fall into the prefill, which is not modelled for anyone. Freeing the trees of a finished request is
  not counted. Drafts may branch (``tree=yes`` in the grid), although its integrations take chains.
* Prompt lookup and the n-gram proposer scan the context in every step. Here they keep a table, so that their
  times are below those of the real ones. Drafts are not cut at the end-of-turn token, as prompt lookup does.
* The automaton keeps its structure over the turns of a session, and one of the history, in plain Python.
* Memory is compared for ArcticInference only, by its own estimate: the trees of all responses and that of
  the last prompt, per token that they hold. (It counts 24 bytes for each token of the text where 4 are used:
  328 bytes per token against 308 that a process grew by.) Ours is allocated capacity, calibration left out.
* Times on a machine that is not quiet are noisy; tokens per step are exact and repeat.

Grids are explored in lockstep (``bench.peers.lockstep``): one index, many settings. The drafts are those of
separate runs; a later one of two calls at the same place finds the caches of the processor warm.
"""
