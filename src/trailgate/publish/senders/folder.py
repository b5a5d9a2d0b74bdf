"""Messages published as files of a folder, a message a line: each file is there whole or not at all.

The state of the folder states what its files hold, so that a later run continues after it. Files end where transactions end. ``storage/publish/protocol.py`` describes
how a file and the state are published together.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from trailgate.errors import EncodeError, StorageError, Where
from trailgate.messages.publishing import Messages
from trailgate.storage.files.addresses import Address, is_stored, locate
from trailgate.storage.files.durable import writing
from trailgate.storage.files.quarantine import message_line
from trailgate.storage.publish.local_disk import LocalDisk
from trailgate.storage.publish.protocol import (
    Backend,
    Commit,
    IsPublished,
    StagedFile,
    overtaken_error,
)
from trailgate.storage.publish.store_folder import STAGED, STATE, StoreFolder
from trailgate.storage.stores.kinds import writable_store
from trailgate.storage.writing.table_writing import Counts

MESSAGES: Final = re.compile(r"messages-(\d{9,})\.(?:txt|jsonl)")  # the names of files
LOCAL_STAGING: Final = STAGED.removeprefix(".")
RUN_FIELDS: Final = ("edition", "run")  # of a state, which only stores need

VERSION: Final = 1
HINT: Final = "Publish into an empty folder"
NEWLINE: Final = b"\n"


def message_folder(address: Address) -> MessageFolder:
    """Return the folder at an address; raises OptionError where the store is not written to."""
    if not is_stored(address):
        return MessageFolder(LocalDisk(str(Path(locate(address)[1])), STATE, is_folder=True))
    store, key = writable_store(str(address), "a folder of messages")
    return MessageFolder(StoreFolder.of_folder(store, key))


class MessageFolder:
    """A folder, and the fields of its state."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._fields: dict[str, Any] = {}
        self._filling = ExitStack()
        self._staging = Path()

    @property
    def name(self) -> str:
        """Return what messages call the folder; without credentials."""
        return self._backend.name

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for one run, where that can be."""
        with self._backend.held(), self._filling:
            yield

    def state(self) -> dict[str, Any] | None:
        """Return the fields of the state, None: there is none; what an interrupted run had decided is applied first."""
        self._backend, data, _ = self._backend.recover()
        if data is None:
            return None
        fields = json.loads(data)
        self._fields = {name: fields[name] for name in fields if name not in RUN_FIELDS}
        return dict(self._fields)

    def other(self) -> str | None:
        """Return the name of a file that is not hidden, unless another run has published it since the state was read."""
        name = next((name for name in self._backend.names() if name[0] != "."), None)
        if name is not None:
            self._backend.state()
        return name

    def begin(self, fields: dict[str, Any]) -> None:
        """Delete what killed runs left, and write a state; raises StorageError where the store cannot decide between two runs."""
        self._backend.check()
        if self._backend.appends:
            folder = Path(self.name)
            self._backend.make(folder)
            for left in folder.glob(".messages-*.new"):  # which earlier versions staged
                left.unlink()
            self._backend.discard(self._backend.staging(LOCAL_STAGING))
        self.write_state(fields)

    def path(self, name: str) -> Path:
        """Return where a file is written before it is published."""
        own = LOCAL_STAGING if self._backend.appends else uuid.uuid4().hex
        self._staging = self._backend.staging(own)
        self._backend.make(self._staging)
        return self._filling.enter_context(self._backend.filling(self._staging)) / name

    def discard(self) -> None:
        """Delete the folder of a file that is not published."""
        self._filling.close()
        if self._backend.appends:
            self._backend.discard(self._staging)

    def write_state(self, fields: dict[str, Any]) -> None:
        """Replace the state, where it is another one; raises OvertakenError where another run has."""
        if fields != self._fields:
            self._backend = self._backend.replace_state(_state(fields))
            self._fields = fields
        self._backend.sweep(_is_published(fields))

    def publish(self, path: Path, fields: dict[str, Any]) -> None:
        """Give a file its name, and replace the state: both or none, after a crash too. Raises OvertakenError."""
        state, before = _state(fields), self._fields

        def deciding(generation: int, record: str) -> bytes:
            decided = {"edition": generation, "decided": {"record": record}}
            return json.dumps({**before, **decided}).encode()

        file = StagedFile(path.name, path.name, path.stat().st_size)
        try:
            self._filling.close()
            commit = Commit((file,), state, deciding, _is_published(fields))
            self._backend.commit(commit, self._staging)
        except BaseException:
            with suppress(StorageError):  # the next run deletes what is left
                self._backend.discard(self._staging)
            raise
        self._backend, data, _ = self._backend.recover()
        if data != state(self._backend.generation):
            raise overtaken_error(f"{self.name}/{STATE}")
        self._fields = fields


def _state(fields: Mapping[str, Any]) -> Callable[[int], bytes]:
    """Return what gives the state of a generation: bytes that no other run puts, so that its tag is new in every kind of store."""
    run = uuid.uuid4().hex

    def state(generation: int) -> bytes:
        if not generation:
            return json.dumps(fields, indent=1).encode() + NEWLINE
        return json.dumps({**fields, "edition": generation, "run": run}).encode()

    return state


def _is_published(fields: Mapping[str, Any]) -> IsPublished:
    """Return what knows the names of the state and of its files: no run completes an upload of them."""

    def is_published(name: str) -> bool:
        named = MESSAGES.fullmatch(name)
        return name == STATE or (named is not None and int(named[1]) <= int(fields["files"]))

    return is_published


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
    where = Where(source=f"{folder.name}/{STATE}")
    try:
        fields = folder.state()
        if fields is None:
            return None
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
    where = Where(source=folder.name)
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
        folder.begin(self._fields(known))

    def append(self, messages: Messages, begin: int = 0, stop: int | None = None) -> None:
        """Write messages [begin, stop)."""
        count = len(messages) if stop is None else stop
        if begin == count:
            return
        with writing(self._folder.name):
            file = self._open()
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
            self._folder.write_state(self._fields(self.published))
            return
        path = Path(self._file.name)
        with writing(path):
            self._file.truncate(self._safe)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        self._file = None
        self._safe = self._size = 0
        done = replace(self.published, files=self.published.files + 1)
        self._folder.publish(path, self._fields(done))
        self.published = done
        self.names.append(path.name)

    def _fields(self, published: Published) -> dict[str, Any]:
        return json.loads(json.dumps({"version": VERSION, **asdict(published)}))  # type: ignore[no-any-return]

    def discard(self) -> None:
        """Remove the open file."""
        if self._file is not None:
            self._file.close()
            Path(self._file.name).unlink(missing_ok=True)
            self._file = None
            self._safe = self._size = 0
            self._folder.discard()

    def _name(self) -> str:
        return f"messages-{self.published.files + 1:09}.{'txt' if self._bare else 'jsonl'}"

    def _open(self) -> BinaryIO:
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
