r"""Draft trees inside SGLang (read against 0.5.23): ``--speculative-algorithm SUFFIXSPEC``.

::

    python -m sglang.launch_server --model-path MODEL --speculative-algorithm SUFFIXSPEC \
        --speculative-num-draft-tokens 16

- ``plugin``: what SGLang's entry point ``sglang.srt.plugins`` calls; registers the algorithm
- ``algorithm``: what SGLang asks of an algorithm
- ``worker``: SGLang's own n-gram worker, with this project's drafts
- ``batch_drafter``: draft trees for the requests of a batch
- ``request_view``: a request of SGLang's as the sessions of ``suffixspec.integrations.hosted`` see one
- ``tree_mask``: a draft tree in the form in which SGLang verifies it

Settings are those of ``suffixspec.integrations.hosted.settings``, as JSON in the variable ``SUFFIXSPEC_SGLANG``, without
those about the size and the time of drafts, which SGLang decides. A history's folder and the prior are used where one
rank drafts (no tensor parallelism): several have to come to the same drafts. Importing this imports neither SGLang nor
Numba. The worker needs a GPU; everything else is tested without SGLang.
"""
