"""Messages written as files of a folder, a message a line: each file is there whole or not at all.

Beside them a checkpoint states what they hold, so that a later run continues after it. Files end where transactions end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from trailgate.errors import EncodeError, StorageError, Where
from trailgate.messages.publishing.messages import Messages
from trailgate.storage.files.durable import sync_folder, write_whole, writing
from trailgate.storage.files.quarantine import message_line
from trailgate.storage.writing.counts import Counts

CHECKPOINT: Final = ".published.json"
VERSION: Final = 1
HINT: Final = "Publish into an empty folder"
NEWLINE: Final = b"\n"


@dataclass(frozen=True, slots=True)
class Published:
    """What a folder holds: of which source, by which options, up to which position; sums of all runs."""

    source: str
    form: Mapping[str, str] = field(default_factory=dict)
    position: str = ""
    files: int = 0
    messages: int = 0
    operations: int = 0
    transactions: int = 0
    counts: Counts = field(default_factory=dict)


def read_published(folder: Path) -> Published | None:
    """Return what a folder holds; None where nothing was published into it. Raises StorageError."""
    path = folder / CHECKPOINT
    try:
        fields = json.loads(path.read_bytes())
        version = fields.pop("version")
        if version != VERSION:
            raise StorageError(
                f"the checkpoint has version {version}, not {VERSION}",
                where=Where(source=str(path)),
            )
        return Published(**fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"the checkpoint cannot be understood: {error!r}"
        raise StorageError(problem, where=Where(source=str(path)), hint=HINT) from error


def check_folder(folder: Path, source: str, form: Mapping[str, str]) -> Published:
    """Return what a folder holds of a source, nothing for a new or an empty one; raises StorageError for one of other content."""
    known = read_published(folder)
    others = [] if not folder.exists() else [p for p in folder.iterdir() if p.name[0] != "."]
    if known is None or not (known.files or others):  # a run that failed before its first file
        if others:
            problem = f"the folder is not empty, and was not published into: {others[0].name}"
            raise StorageError(problem, where=Where(source=str(folder)), hint=HINT)
        return Published(source, form)
    asked, held = {"trail": source, **form}, {"trail": known.source, **known.form}
    for name in sorted(asked.keys() | held.keys()):
        own, other = asked.get(name), held.get(name)
        if own != other:
            problem = f"the folder's messages were published with {name} {other}, not {own}"
            raise StorageError(problem, where=Where(source=str(folder)), hint=HINT)
    return known


class MessageFileWriter:
    """Writes messages into files of about ``file_bytes``; what is not committed is gone with the next run."""

    def __init__(self, folder: Path, known: Published, *, bare: bool, file_bytes: int) -> None:
        self._folder, self._bare, self._file_bytes = folder, bare, file_bytes
        self.published = known
        self._file: BinaryIO | None = None
        self._safe = self._size = 0
        self.names: list[str] = []
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for left in folder.glob(".messages-*.new"):
                left.unlink()
        self._write_state()

    def append(self, messages: Messages, begin: int = 0, stop: int | None = None) -> None:
        """Write messages [begin, stop)."""
        count = len(messages) if stop is None else stop
        if begin == count:
            return
        with writing(self._folder):
            file = self._opened()
            for line in _lines(messages, begin, count, bare=self._bare):
                file.write(line)
                self._size += len(line)

    def commit(self, state: Published) -> None:
        """Note that what was written up to here, and ``state``, belong together; a large file ends here."""
        self.published = replace(state, files=self.published.files)
        self._safe = self._size
        if self._size >= self._file_bytes:
            self.close()

    def close(self) -> None:
        """End the open file at the last commit, and make it and the state last."""
        if self._file is not None:
            with writing(self._folder):
                self._file.truncate(self._safe)
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
                self._publish(Path(self._file.name))
            self._file = None
            self._safe = self._size = 0
        self._write_state()

    def _write_state(self) -> None:
        state: dict[str, Any] = {"version": VERSION, **asdict(self.published)}
        write_whole(self._folder / CHECKPOINT, json.dumps(state, indent=1).encode() + NEWLINE)

    def discard(self) -> None:
        """Remove the open file."""
        if self._file is not None:
            self._file.close()
            Path(self._file.name).unlink(missing_ok=True)
            self._file = None

    def _publish(self, made: Path) -> None:
        if not self._safe:
            made.unlink()
            return
        final = made.with_name(made.name[1:].removesuffix(".new"))
        if final.exists():
            # It was published, and the run ended before its checkpoint was: the messages are the same.
            final.unlink()
        made.rename(final)
        sync_folder(self._folder)
        self.published = replace(self.published, files=self.published.files + 1)
        self.names.append(final.name)

    def _opened(self) -> BinaryIO:
        if self._file is None:
            ending = "txt" if self._bare else "jsonl"
            name = f".messages-{self.published.files + 1:09}.{ending}.new"
            self._file = (self._folder / name).open("wb")
        return self._file


def _lines(messages: Messages, begin: int, stop: int, *, bare: bool) -> Iterator[bytes]:
    headers = {name: values.to_pylist() for name, values in messages.headers.items()}
    for at, body in enumerate(messages.bodies.slice(begin, stop - begin).to_pylist(), begin):
        if bare:
            if NEWLINE in body.rstrip(NEWLINE):
                problem = "a message has a line feed, and each line is to be a message"
                raise EncodeError(problem, where=Where(raw=body), hint="Write JSON lines")
            yield body.rstrip(NEWLINE) + NEWLINE
        else:
            own = {name: values[at] for name, values in headers.items() if values[at] is not None}
            yield message_line(body, own)
