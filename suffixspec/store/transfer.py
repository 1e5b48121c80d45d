"""A namespace as JSON lines, out of a history and into one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from suffixspec.errors import InputError
from suffixspec.store.history_store import HistoryStore
from suffixspec.store.record import Record

_KEY = "suffixspec_history"
_VERSION = 1
_BATCH = 256


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    namespace: str
    added: int
    known: int
    """Records that were there already."""


def export_lines(store: HistoryStore, namespace: str) -> Iterator[str]:
    """A header and a line per record, oldest first, in ASCII. Holds one segment in memory."""
    segments = store.log(namespace).segments()
    tokenizers = {info.header.tokenizer: info.header.tokenizer_name for info in segments}
    if len(tokenizers) > 1:
        raise InputError(
            f"expected one tokenizer in namespace {namespace!r}, got {len(tokenizers)}; run 'suffixspec history "
            "compact --retokenize'"
        )
    fingerprint, name = next(iter(tokenizers.items()), ("", ""))
    head = {_KEY: _VERSION, "namespace": namespace, "tokenizer": fingerprint, "tokenizer_name": name}
    yield json.dumps(head) + "\n"
    for record in store.records(namespace):
        line = {
            "session": record.session,
            "time": record.time,
            "kind": record.kind,
            "digest": record.digest,
            "context": record.context.tolist(),
            "tokens": record.tokens.tolist(),
            "text": record.text,
        }
        yield json.dumps(line) + "\n"


def import_lines(
    store: HistoryStore, lines: Iterable[str], *, namespace: str | None = None, path: str = "-"
) -> Imported:
    """Append the records of an export that are not there yet, and seal them.

    Records of another tokenizer are encoded anew from their texts. What came before a bad line is kept.

    Args:
        store: opened with a tokenizer.
        lines: what ``export_lines`` yields.
        namespace: where to; None: where they came from.
        path: for errors.

    Raises:
        InputError: not an export, a bad line, or a record of another tokenizer without its text.
        TokenizerMismatchError: the namespace is of another tokenizer than the store.
    """
    numbered = enumerate(lines, start=1)
    head = _object(next(numbered, (1, ""))[1], path, 1)
    if head.get(_KEY) != _VERSION:
        raise InputError(
            f"expected an export of version {_VERSION}, got {head.get(_KEY)!r} as {_KEY}", path=path, line=1
        )
    target = namespace or str(head.get("namespace") or "default")
    store.admit(target)
    own = store.identity is not None and head.get("tokenizer") == store.identity.fingerprint
    seen = {_print(record) for record in store.records(target)}
    added = known = 0
    batch: list[Record] = []
    for number, line in numbered:
        if not line.strip():
            continue
        record = _record(_object(line, path, number), path, number)
        if not own:
            record = _encoded(store, record, path, number)
        mark = _print(record)
        if mark in seen:
            known += 1
            continue
        seen.add(mark)
        batch.append(record)
        added += 1
        if len(batch) == _BATCH:
            store.append(target, batch)
            batch = []
    store.append(target, batch)
    store.seal(target)
    return Imported(target, added, known)


def _object(line: str, path: str, number: int) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected a JSON object, got {error}", path=path, line=number) from None
    if not isinstance(value, dict):
        raise InputError(f"expected a JSON object, got {type(value).__name__}", path=path, line=number)
    return value


def _record(value: dict[str, object], path: str, number: int) -> Record:
    try:
        ids = {}
        for key in ("tokens", "context"):
            listed = np.array(value.get(key) or [], dtype=np.int64)
            if listed.ndim != 1 or (listed.size and not 0 <= listed.min() <= listed.max() < 2**31):
                raise ValueError(f"{key} that are no token ids")  # noqa: TRY301 (said with its line below)
            ids[key] = listed.astype(np.int32)
        text = value.get("text")
        return Record(
            session=str(value["session"]),
            tokens=ids["tokens"],
            context=ids["context"],
            time=float(str(value["time"])),
            text=None if text is None else str(text),
            kind="file" if value.get("kind") == "file" else "output",
            digest=str(value.get("digest") or ""),
        )
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise InputError(
            f"expected a record with session, time and tokens, got {error}", path=path, line=number
        ) from None


def _encoded(store: HistoryStore, record: Record, path: str, number: int) -> Record:
    if record.text is None or store.tokenizer is None:
        raise InputError(
            "expected a record of this tokenizer or one with its text, got neither; name its --tokenizer",
            path=path,
            line=number,
        )
    ids = np.array(store.tokenizer.encode(record.text, continues=True), np.int32)
    return replace(record, tokens=ids, context=ids[:0])


def _print(record: Record) -> bytes:
    state = hashlib.sha256(
        f"{record.session}\0{record.time!r}\0{record.kind}\0".encode("utf-8", "surrogatepass")
    )
    state.update(record.tokens.tobytes())
    return state.digest()
