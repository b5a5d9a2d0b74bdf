"""The last file of a live trail, which still grows: write to it in place, and complete its header at the end.

Every change to the disk is a method of ``Disk`` or ``WrittenFile``, so that tests can interrupt
each step.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from trailgate.errors import StorageError
from trailgate.storage.files.durable import (
    WrittenFile,
    convert_write_errors,
    replace_whole_file,
    sync_folder,
)
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.storage.files.trail_names import trail_file_path
from trailgate.storage.live.checkpoint import TransactionMark
from trailgate.trail.format.file_header import FileHeader, encode_header


class Disk:
    """The operations on a local disk by which a live trail is written."""

    def open(self, path: Path) -> WrittenFile:
        """Open a local file for writing in place."""
        return WrittenFile(path)

    def replace(self, path: Path, data: bytes) -> None:
        """Replace a file of the live trail completely or not at all, and sync it."""
        replace_whole_file(path, data)

    def rename(self, path: Path, final: Path) -> None:
        """Rename a file of the live trail, replacing any file of that name, and sync the folder."""
        with convert_write_errors(final):
            path.replace(final)
            sync_folder(final.parent)

    def remove(self, path: Path) -> None:
        """Delete a local file, and sync the folder."""
        with convert_write_errors(path):
            path.unlink()
            sync_folder(path.parent)


class GrowingFile:
    """Writes the files of a live trail, one after the other.

    ``template`` is the header of new files, to which each adds its number and first transaction.
    If it is None, files have no headers (level 0). ``metadata`` are the records at the start of
    each file. ``number`` and ``size`` describe the open file; if no file is open, ``number`` is the
    number of the next one.
    """

    def __init__(
        self,
        disk: Disk,
        prefix: str,
        digits: int,
        template: FileHeader | None,
        metadata: bytes = b"",
    ) -> None:
        self._disk, self._prefix, self._digits = disk, prefix, digits
        self._template, self._metadata = template, metadata
        self._fresh = False
        self._file: WrittenFile | None = None
        self._header: FileHeader | None = None
        self._last: TransactionMark | None = None
        self.number = self.size = 0

    @property
    def is_open(self) -> bool:
        """True if a growing file is open."""
        return self._file is not None

    @property
    def is_empty(self) -> bool:
        """True if the growing file has only its header and metadata."""
        return self.is_open and self._fresh

    def begin(self, first: TransactionMark | None) -> None:
        """Create the next file of the live trail, with its header and metadata records.

        ``first`` is its first transaction, or None if that is not known yet.
        """
        number = self.number
        if number >= 10**self._digits:
            raise StorageError(f"file number {number} has more than {self._digits} digits")
        path = trail_file_path(self._prefix, number, self._digits)
        header, data = self._template, b""
        if header is not None:
            trail = replace(header.trail, seqno=number, filename=str(path))
            header = _with_first(replace(header, trail=trail), first)
            data = encode_header(header)
        self._file, self._header = self._disk.open(path), header
        self._file.write(0, data + self._metadata)
        self.size, self._fresh = len(data) + len(self._metadata), True

    def resume(
        self, position: TrailPosition, header: FileHeader | None, last: TransactionMark | None
    ) -> None:
        """Open an existing trail file to continue it at ``position``, and truncate it there.

        ``header`` is its header (None for level 0), and ``last`` the transaction of the last change
        before the position.
        """
        number, size = position
        self._file = self._disk.open(trail_file_path(self._prefix, number, self._digits))
        self._file.truncate(size)
        self._header, self._last, self._fresh = header, last, False
        self.number, self.size = number, size

    def reopen(self) -> None:
        """Undo what finishing the file wrote into its header, so that it can grow again."""
        if self._header is not None:
            trail = replace(self._header.trail, file_size=None, last_csn=None, last_io_time=None)
            self._put_header(replace(self._header, trail=trail))

    def write(self, data: Any, marks: tuple[TransactionMark, TransactionMark] | None) -> None:
        """Append records to the growing file.

        ``marks`` are the transactions of the first and of the last change in the records, or None
        if the records contain no change, such as a restart record.
        """
        assert self._file is not None
        if marks is not None:
            if self._header is not None and self._header.trail.first_io_time is None:
                self._put_header(_with_first(self._header, marks[0]))
            self._last = marks[1]
        self._file.write(self.size, data)
        self.size, self._fresh = self.size + len(data), False

    def sync(self) -> None:
        """Sync the growing file. Finished files are synced already."""
        if self._file is not None:
            self._file.sync()

    def finish(self) -> None:
        """Complete the growing file's header and close it; the next file follows."""
        self.sync()
        if self._header is not None:
            trail = replace(self._header.trail, file_size=self.size)
            if self._last is not None and trail.first_io_time is not None:
                trail = replace(trail, last_csn=self._last.csn, last_io_time=self._last.io_time)
            self._put_header(replace(self._header, trail=trail))
            self.sync()
        self.close()
        self.number, self.size, self._last = self.number + 1, 0, None

    def close(self) -> None:
        """Close the growing file without completing its header, so that it can be continued."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _put_header(self, header: FileHeader) -> None:
        assert self._file is not None
        assert self._header is not None
        data = encode_header(header)
        # The header is overwritten in place, so its length must not change.
        if len(data) != len(encode_header(self._header)):
            raise StorageError(f"the header of file {self.number} was not written by this version")
        self._file.write(0, data)
        self._header = header


def _with_first(header: FileHeader, first: TransactionMark | None) -> FileHeader:
    if first is None:
        return header
    trail = replace(header.trail, first_csn=first.csn, first_io_time=first.io_time)
    return replace(header, trail=trail)
