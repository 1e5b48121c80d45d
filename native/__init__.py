"""Compiled kernels. Importing this package compiles and imports nothing.

Rules that every kernel follows:

* plain functions over C-contiguous ``int32`` (and ``float32``) arrays, ``-1`` or ``0`` meaning none as the
  layout table at the top of each file says; no validation, no I/O, no allocation policy: the wrappers in
  ``suffixspec.index`` and ``suffixspec.draft`` validate, allocate and grow;
* ``njit(nogil=True, cache=True)``, compiled lazily. The lock is released, so one writer at a time per
  index, and no reader during a write;
* kernels that call one another live in one file, since a cached caller does not notice an edit of a callee
  in another file.
"""
