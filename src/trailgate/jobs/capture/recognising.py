"""Which message files were captured already: recognised by name, size and content (decision 0022)."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import LOCAL, locate, name_of
from trailgate.storage.files.manifest import CapturedFile
from trailgate.storage.files.opened_file import OpenedFile
from trailgate.storage.reading.messages.file_list import FileList, MessageFile
from trailgate.storage.reading.messages.files import MessageFiles

END: Final = (
    64 << 10
)  # bytes of each end of a file that are compared; shorter files are compared whole
THREADS: Final = 8  # files are opened at once: stores answer slowly
NEWLINES: Final = b"\n\r"


@dataclass(frozen=True, slots=True)
class Recognised:
    """What is left to capture, and what the trail is to remember of it.

    Of the files, ``skipped`` were captured before, ``continued`` have grown since, ``changed`` have the name of a captured
    file but other content, and ``copied`` have the content of a captured file but another name.
    """

    files: MessageFiles
    remembered: tuple[CapturedFile, ...]
    skipped: int = 0
    continued: int = 0
    changed: int = 0
    copied: int = 0


def recognised(messages: MessageFiles, captured: Iterable[CapturedFile]) -> Recognised:
    """Return the messages without those that were captured.

    Raises StorageError for a file that can neither be skipped nor captured without a doubt.
    """
    known: defaultdict[str, list[CapturedFile]] = defaultdict(list)
    contents = set()
    for one in captured:
        known[one.name].append(one)
        contents.add((one.size, one.digest))
    left: list[MessageFile] = []
    remembered: list[CapturedFile] = []
    counts = dict.fromkeys(("skipped", "continued", "changed", "copied"), 0)
    for file, own in zip(messages.files, _described(messages.files), strict=True):
        same_name = known.get(own.name, ())
        if any(_is_same(file, own, one) for one in same_name):
            counts["skipped"] += 1
            continue
        begin = _begin(messages, file, same_name)
        left.append(replace(file, begin=begin) if begin else file)
        remembered.append(own)
        counts["continued"] += begin > 0
        counts["changed"] += not begin and bool(same_name)
        counts["copied"] += not same_name and (own.size, own.digest) in contents and own.size > 0
    kept = replace(messages, files=FileList(left))
    return Recognised(kept, tuple(remembered), **counts)


def _described(files: Sequence[MessageFile]) -> Iterable[CapturedFile]:
    if len(files) < 2 or locate(files[0].path)[0] is LOCAL:
        return map(_description, files)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(_description, files))


def _description(file: MessageFile) -> CapturedFile:
    """Return what is remembered of a file."""
    modified = None
    if file.size > 2 * END:
        store, place = locate(file.path)
        modified = store.get_file_info(place).mtime_ns
    return CapturedFile(name_of(file.path), file.size, _digest(file, file.size), modified)


def _digest(file: MessageFile, size: int) -> str:
    """Return the digest of the ends of a file's first ``size`` bytes."""
    start = max(END, size - END)
    store, place = locate(file.path)
    if store is LOCAL and size <= END:  # a folder may have very many small files
        return hashlib.sha256(_small(place, size)).hexdigest()
    with OpenedFile(file.path, file.size, "messages") as opened:
        digest = hashlib.sha256(opened.read(0, min(END, size)))
        digest.update(opened.read(start, max(0, size - start)))
    return digest.hexdigest()


def _small(path: str, size: int) -> bytes:
    """Return the bytes of a small local file."""
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            return os.read(handle, size)
        finally:
            os.close(handle)
    except OSError as error:
        problem = f"cannot open the messages: {error.strerror}"
        raise StorageError(problem, where=Where(source=path)) from error


def _is_same(file: MessageFile, own: CapturedFile, known: CapturedFile) -> bool:
    """Return whether a file is one that was captured under its name; raises StorageError in doubt."""
    if (own.size, own.digest) != (known.size, known.digest):
        return False
    if own.modified != known.modified:
        raise StorageError(
            "a file of this name, size, first and last bytes was captured already, but this one was modified at another time",
            where=Where(source=file.path),
            hint="Capture it alone with --again if its messages are others; else leave it out",
        )
    return True


def _begin(messages: MessageFiles, file: MessageFile, known: Sequence[CapturedFile]) -> int:
    """Return the bytes of a file that were captured already, 0 if none; raises StorageError.

    Only what is appended as whole lines can be captured alone.
    """
    if not known:
        return 0
    shorter = sorted((one for one in known if 0 < one.size < file.size), key=lambda one: -one.size)
    grown = next((one for one in shorter if _digest(file, one.size) == one.digest), None)
    if grown is None:
        return 0
    if file.codec is not None:
        raise _has_grown(file, grown, "it is compressed", "")
    if not (messages.per_line or file.json):
        raise _has_grown(file, grown, "a message is a whole file", "if messages are lines")
    with OpenedFile(file.path, file.size, "messages") as opened:
        border = bytes(opened.read(grown.size - 1, 2))
    if border[:1] != b"\n" and border[1] not in NEWLINES:
        raise _has_grown(file, grown, "its last line was not complete then", "")
    return grown.size


def _has_grown(file: MessageFile, known: CapturedFile, why: str, lines: str) -> StorageError:
    problem = f"the file was captured when it had {known.size} bytes, and has grown since: {why}"
    hint = "Put the new messages into a file of their own, or capture all of this one with --again"
    more = f"; {lines}, give --message-per line" if lines else ""
    return StorageError(problem, where=Where(source=file.path), hint=hint + more)
