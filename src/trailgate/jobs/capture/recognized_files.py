"""Recognize files of messages that were captured before (decision 0022).

A file that was captured under the same name, with the same size and the same first and last 64 KiB,
is skipped. If a captured file has grown, only the appended lines are captured.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import LOCAL, locate, name_of
from trailgate.storage.files.manifest import CapturedFile
from trailgate.storage.files.opened_file import OpenedFile
from trailgate.storage.reading.message_files import (
    MessageFile,
    MessageFileList,
    MessageFiles,
)

if TYPE_CHECKING:
    pass

# Bytes compared at each end of a file. Files up to twice this size are compared completely.
END: Final = 64 << 10
THREADS: Final = 8  # files opened at the same time: stores answer slowly
NEWLINES: Final = b"\n\r"


@dataclass(frozen=True, slots=True)
class RecognizedFiles:
    """The message files that remain to be captured, after comparison with those captured before.

    `remembered` are the entries to add to the trail's list of captured files. The counts of files:
    `skipped` were captured before, `continued` have grown since, `changed` have the name of a
    captured file but different content, `copied` have the content of a captured file but a
    different name.
    """

    files: MessageFiles
    remembered: tuple[CapturedFile, ...]
    skipped: int = 0
    continued: int = 0
    changed: int = 0
    copied: int = 0


def recognize_files(messages: MessageFiles, captured: Iterable[CapturedFile]) -> RecognizedFiles:
    """Exclude the message files that were captured into the trail before from `messages`.

    `captured` is the trail's list of captured files. Raises StorageError if it is unclear whether a
    file was captured before.
    """
    known: defaultdict[str, list[CapturedFile]] = defaultdict(list)
    contents = set()
    for one in captured:
        known[one.name].append(one)
        contents.add((one.size, one.digest))
    left: list[MessageFile] = []
    remembered: list[CapturedFile] = []
    counts = dict.fromkeys(("skipped", "continued", "changed", "copied"), 0)
    for file, own in zip(messages.files, _describe(messages.files), strict=True):
        same_name = known.get(own.name, ())
        if any(_is_same(file, own, one) for one in same_name):
            counts["skipped"] += 1
            continue
        begin = _captured_bytes(messages, file, same_name)
        left.append(replace(file, begin=begin) if begin else file)
        remembered.append(own)
        counts["continued"] += begin > 0
        # A captured name with other content is a changed file, unless it has grown.
        counts["changed"] += not begin and bool(same_name)
        counts["copied"] += not same_name and (own.size, own.digest) in contents and own.size > 0
    kept = replace(messages, files=MessageFileList(left))
    return RecognizedFiles(kept, tuple(remembered), **counts)


def _describe(files: Sequence[MessageFile]) -> Iterable[CapturedFile]:
    if len(files) < 2 or locate(files[0].path)[0] is LOCAL:
        return map(_description, files)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(_description, files))


def _description(file: MessageFile) -> CapturedFile:
    """Build the entry of a message file for the trail's list of captured files."""
    modified = None
    # Of larger files the middle is not compared, so the modification time must be the same too.
    if file.size > 2 * END:
        store, place = locate(file.path)
        modified = store.get_file_info(place).mtime_ns
    return CapturedFile(name_of(file.path), file.size, _digest(file, file.size), modified)


def _digest(file: MessageFile, size: int) -> str:
    """Hash both ends (`END` bytes each) of the first `size` bytes of a message file."""
    # The two ends [0, END) and [start, size) must not overlap in a short file.
    start = max(END, size - END)
    store, place = locate(file.path)
    if store is LOCAL and size <= END:  # a folder may have very many small files
        return hashlib.sha256(_read_small(place, size)).hexdigest()
    with OpenedFile(file.path, file.size, "messages") as opened:
        digest = hashlib.sha256(opened.read(0, min(END, size)))
        digest.update(opened.read(start, max(0, size - start)))
    return digest.hexdigest()


def _read_small(path: str, size: int) -> bytes:
    """Read the first `size` bytes of a small local message file."""
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
    """Return whether a message file has the size and digest of a captured file of its name.

    `own` describes the file. Raises StorageError if both are equal, but a large file was modified
    at a different time: bytes between its ends may differ.
    """
    if (own.size, own.digest) != (known.size, known.digest):
        return False
    if own.modified != known.modified:
        raise StorageError(
            "a file of this name, size, first and last bytes was captured already, but this one was modified at another time",
            where=Where(source=file.path),
            hint="If its messages are different, capture it alone with --again; otherwise exclude it",
        )
    return True


def _captured_bytes(
    messages: MessageFiles, file: MessageFile, known: Sequence[CapturedFile]
) -> int:
    """Return the number of bytes of a message file that have already been captured.

    `known` are the captured files of its name. Raises StorageError if the rest cannot be captured
    separately: it must consist of complete lines that were appended.
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
        # The last captured byte and the first new one: at least one of them must be a line end.
        border = bytes(opened.read(grown.size - 1, 2))
    if border[:1] != b"\n" and border[1] not in NEWLINES:
        raise _has_grown(file, grown, "its last line was not complete then", "")
    return grown.size


def _has_grown(file: MessageFile, known: CapturedFile, why: str, lines: str) -> StorageError:
    problem = f"the file was captured when it had {known.size} bytes, but has grown since: {why}"
    hint = "Put the new messages into a file of their own, or capture all of this one with --again"
    more = f"; {lines}, give --message-per line" if lines else ""
    return StorageError(problem, where=Where(source=file.path), hint=hint + more)
