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
from trailgate.storage.files.durable import writing
from trailgate.storage.files.quarantine import message_line
from trailgate.storage.writing.counts import Counts
from trailgate.storage.writing.message_folders import CHECKPOINT, MessageFolder

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


def read_published(folder: MessageFolder) -> Published | None:
    """Return what a folder holds; None where nothing was published into it. Raises StorageError."""
    where = Where(source=f"{folder.shown}/{CHECKPOINT}")
    try:
        state = folder.state()
        if state is None:
            return None
        fields = json.loads(state)
        version = fields.pop("version")
        if version != VERSION:
            raise StorageError(f"the checkpoint has version {version}, not {VERSION}", where=where)
        return Published(**fields)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"the checkpoint cannot be understood: {error!r}"
        raise StorageError(problem, where=where, hint=HINT) from error


def check_folder(folder: MessageFolder, source: str, form: Mapping[str, str]) -> Published:
    """Return what a folder holds of a source, nothing for a new or an empty one; raises StorageError for one of other content."""
    known = read_published(folder)
    other = None if known is not None and known.files else folder.other()
    where = Where(source=folder.shown)
    if known is None or not (known.files or other):  # a run that failed before its first file
        if other:
            problem = f"the folder is not empty, and was not published into: {other}"
            raise StorageError(problem, where=where, hint=HINT)
        return Published(source, form)
    asked, held = {"trail": source, **form}, {"trail": known.source, **known.form}
    for name in sorted(asked.keys() | held.keys()):
        own, before = asked.get(name), held.get(name)
        if own != before:
            problem = f"the folder's messages were published with {name} {before}, not {own}"
            raise StorageError(problem, where=where, hint=HINT)
    return known


class MessageFileWriter:
    """Writes messages into files of about ``file_bytes``; what is not committed is gone with the next run."""

    def __init__(
        self, folder: MessageFolder, known: Published, *, bare: bool, file_bytes: int
    ) -> None:
        self._folder, self._bare, self._file_bytes = folder, bare, file_bytes
        self.published = known
        self._file: BinaryIO | None = None
        self._safe = self._size = 0
        self.names: list[str] = []
        folder.begin()
        folder.write_state(self._state(known))

    def append(self, messages: Messages, begin: int = 0, stop: int | None = None) -> None:
        """Write messages [begin, stop)."""
        count = len(messages) if stop is None else stop
        if begin == count:
            return
        with writing(self._folder.shown):
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
        if self._file is None or not self._safe:
            self.discard()
            self._folder.write_state(self._state(self.published))
            return
        path = Path(self._file.name)
        with writing(path):
            self._file.truncate(self._safe)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        self._file = None
        self._safe = self._size = 0
        name = self._name()
        done = replace(self.published, files=self.published.files + 1)
        self._folder.publish(path, name, self._state(done))
        self.published = done
        self.names.append(name)

    def _state(self, published: Published) -> bytes:
        state: dict[str, Any] = {"version": VERSION, **asdict(published)}
        return json.dumps(state, indent=1).encode() + NEWLINE

    def discard(self) -> None:
        """Remove the open file."""
        if self._file is not None:
            self._file.close()
            Path(self._file.name).unlink(missing_ok=True)
            self._file = None
            self._safe = self._size = 0

    def _name(self) -> str:
        return f"messages-{self.published.files + 1:09}.{'txt' if self._bare else 'jsonl'}"

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._file = self._folder.path(self._name()).open("wb")
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
