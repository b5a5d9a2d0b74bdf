"""Check the files of a trail before they are read: their numbers, their sizes, and the first file.

The number of a file is in its name and in its header, and a finished file's header states its size. The
functions either raise an error or return sentences to print.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from trailgate.errors import DecodeError, StorageError, TruncatedError, Where, mask_logins
from trailgate.model.kernels import APART, UNDOES
from trailgate.storage.files.trail_files import TrailFile, TrailFiles, TrailPosition
from trailgate.storage.reading.record_runs import read_runs_from
from trailgate.storage.reading.trail_file import TrailFileReader, describe_size
from trailgate.trail.records.damage import UNFINISHED

EMPTY: Final = "{} is empty: its writer has not begun it yet, or its content is lost"
FIRST: Final = "the trail begins at file number {}: operations of earlier files are missing"
INSIDE: Final = (
    "the trail begins inside a transaction, at file number {}: its first operations are missing"
)


def check_file_ends(trail: TrailFiles, begin: TrailPosition) -> None:
    """Check that each trail file from a position on has its number and ends with a complete record.

    Only the last file may end inside a record. Raises TruncatedError if a file before the last one
    ends inside a record, DecodeError if records follow a damaged length, and StorageError if the
    number in a file's header differs from the number in its name.
    """
    for file in trail.files_from(begin.number):
        with TrailFileReader(file) as reader:
            reader.check_number()
            end = reader.end_of_records()
        if end < file.size and file.number < trail.end.number:
            raise TruncatedError(
                f"{UNFINISHED}, and another file follows",
                where=Where(source=file.path, offset=end),
                hint="Its end is missing: copy the file again",
            )


def check_numbers(files: Iterable[TrailFile]) -> None:
    """Raise StorageError if the number in a trail file's header differs from the number in its name."""
    for file in files:
        with TrailFileReader(file) as reader:
            reader.check_number()


def check_stated_size(file: TrailFile) -> None:
    """Raise StorageError if a trail file does not have the size that its header states, although another file follows."""
    with TrailFileReader(file) as reader:
        problem = describe_size(reader)
    if problem:
        raise StorageError(
            f"{problem}. Another file follows, so it is not being written any more",
            where=Where(source=file.path),
            hint="Copy the file again",
        )


def describe_wrong_size(reader: TrailFileReader) -> list[str]:
    """Return a list with an error message if a trail file is empty or its size differs from the size in its header.

    The message names the file. Otherwise, or if the header is damaged, the list is empty.
    """
    file = mask_logins(reader.file.path)
    if not reader.file.size:
        return [EMPTY.format(file)]
    try:
        problem = describe_size(reader)
    except DecodeError:
        return []  # the header is damaged, or is still being written
    return [f"{file}: {problem}"] if problem else []


def first_file_notices(trail: TrailFiles) -> tuple[str, ...]:
    """Return notices if the first files of a trail are missing, and if it begins inside a transaction."""
    number = trail.begin.number
    # A writer begins with file 0, so nothing is missing before it.
    if not number:
        return ()
    for run in read_runs_from(trail, trail.begin):
        # Find the first row that belongs to a transaction. Records outside of transactions and
        # restarts do not show whether the trail begins inside of one.
        rows = np.flatnonzero(~run.has(APART | UNDOES))
        if len(rows):
            inside = not run.begins_transaction(int(rows[0]))
            return (FIRST.format(number), *([INSIDE.format(number)] if inside else []))
    return (FIRST.format(number),)
