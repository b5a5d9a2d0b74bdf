"""Publish messages as files of a folder, one message per line.

A file appears completely or not at all, and ends with the end of a transaction. The folder's state
file contains the state of the publication (``PublishedState``), with which a later run continues. A
file and the new state are published together (``storage.publish.protocol``).
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.errors import EncodeError, StorageError, Where
from trailgate.live.brokers.address import check_scheme
from trailgate.publish.senders.sender import (
    EVERY_OPERATION,
    EXACTLY_ONCE,
    OutgoingMessages,
    PublishedState,
)
from trailgate.storage.files.addresses import Address, is_stored, locate
from trailgate.storage.files.durable import convert_write_errors
from trailgate.storage.files.json_lines import format_message_line
from trailgate.storage.live.checkpoint import OTHER_VERSION
from trailgate.storage.publish.local_disk import LocalBackend
from trailgate.storage.publish.protocol import (
    CommitPlan,
    IsPublished,
    PublishBackend,
    StagedFile,
    overtaken_error,
)
from trailgate.storage.publish.store_folder import STAGED, STATE, StoreBackend
from trailgate.storage.stores.writable_stores import writable_store

MESSAGES: Final = re.compile(r"messages-(\d{9,})\.(?:txt|jsonl)")  # the names of files
LOCAL_STAGING: Final = STAGED.removeprefix(".")
RUN_FIELDS: Final = ("edition", "run")  # fields of the state that only object stores need

KEY: Final = "kafka.key"  # as a live capture names it
VERSION: Final = 1
FOLDER_IS: Final = "the folder's messages were"
HINT: Final = "Publish into an empty folder"
NEWLINE: Final = b"\n"


def message_folder(address: Address) -> MessageFolder:
    """Return the folder of published messages at an address.

    Raises OptionError if the store cannot be written.
    """
    check_scheme(str(address))
    if not is_stored(address):
        return MessageFolder(LocalBackend(str(Path(locate(address)[1])), STATE, is_folder=True))
    store, key = writable_store(str(address), "a folder of messages")
    return MessageFolder(StoreBackend.of_folder(store, key))


class MessageFolder:
    """A folder of published message files, on a disk or in an object store, with its state.

    The state is a dictionary of fields, written as JSON.
    """

    def __init__(self, backend: PublishBackend) -> None:
        self._backend = backend
        self._fields: dict[str, Any] = {}
        self._filling = ExitStack()
        self._staging = Path()

    @property
    def name(self) -> str:
        """The folder's address as shown in errors and summaries, without credentials."""
        return self._backend.name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the message folder for one run, if the storage supports locks."""
        with self._backend.locked(), self._filling:
            yield

    def state(self) -> dict[str, Any] | None:
        """Complete an interrupted publication of a message file, and return the fields of the folder's state.

        Returns None if the folder has no state.
        """
        self._backend, data, _ = self._backend.recover()
        if data is None:
            return None
        fields = json.loads(data)
        self._fields = {name: fields[name] for name in fields if name not in RUN_FIELDS}
        return dict(self._fields)

    def any_file(self) -> str | None:
        """Return the name of any file in the folder, except files whose names begin with a dot, or None.

        Raises OvertakenError if another run has published the file since the state was read.
        """
        name = next((name for name in self._backend.names() if name[0] != "."), None)
        if name is not None:
            self._backend.state()
        return name

    def begin(self, fields: dict[str, Any]) -> None:
        """Delete the remains of killed runs in the message folder, and write a state.

        Raises StorageError if the store cannot prevent two concurrent runs from both publishing.
        """
        self._backend.check()
        if self._backend.appends:
            folder = Path(self.name)
            self._backend.create_staging(folder)
            for left in folder.glob(".messages-*.new"):  # staged by earlier versions
                left.unlink()
            self._backend.discard(self._backend.staging(LOCAL_STAGING))
        self.write_state(fields)

    def path(self, name: str) -> Path:
        """Return the local path at which a message file is written before it is published.

        Creates a staging folder for it.
        """
        folder_name = LOCAL_STAGING if self._backend.appends else uuid.uuid4().hex
        self._staging = self._backend.staging(folder_name)
        self._backend.create_staging(self._staging)
        return self._filling.enter_context(self._backend.staged_folder(self._staging)) / name

    def discard(self) -> None:
        """Delete the staging folder of a message file that is not published."""
        self._filling.close()
        if self._backend.appends:
            self._backend.discard(self._staging)

    def write_state(self, fields: dict[str, Any]) -> None:
        """Replace the message folder's state if it changed. Raises OvertakenError if another run has replaced it."""
        if fields != self._fields:
            self._backend = self._backend.replace_state(_state(fields))
            self._fields = fields
        self._backend.sweep(_is_published(fields))

    def publish(self, path: Path, fields: dict[str, Any]) -> None:
        """Give a message file its final name and replace the state: both or neither, even after a crash.

        Raises OvertakenError if another run has published.
        """
        state, before = _state(fields), self._fields

        def deciding(generation: int, record: str) -> bytes:
            decided = {"edition": generation, "decided": {"record": record}}
            return json.dumps({**before, **decided}).encode()

        file = StagedFile(path.name, path.name, path.stat().st_size)
        try:
            self._filling.close()
            commit = CommitPlan((file,), state, deciding, _is_published(fields))
            self._backend.commit(commit, self._staging)
        except BaseException:
            with suppress(StorageError):  # the next run deletes what is left
                self._backend.discard(self._staging)
            raise
        self._backend, data, _ = self._backend.recover()
        # Another run has replaced the state in the meantime.
        if data != state(self._backend.generation):
            raise overtaken_error(f"{self.name}/{STATE}")
        self._fields = fields


def _state(fields: Mapping[str, Any]) -> Callable[[int], bytes]:
    """Return a function that encodes the message folder's state for a generation (0 on a local disk).

    In an object store each new state increments the generation, and the state includes a random run
    id. Because no other run writes the same bytes, the object's tag always changes.
    """
    run = uuid.uuid4().hex

    def state(generation: int) -> bytes:
        if not generation:
            return json.dumps(fields, indent=1).encode() + NEWLINE
        return json.dumps({**fields, "edition": generation, "run": run}).encode()

    return state


def _is_published(fields: Mapping[str, Any]) -> IsPublished:
    """Return a predicate of file names: whether a file is the state, or a message file that it counts.

    No run completes an unfinished upload with such a name, so the upload can be deleted.
    """

    def is_published(name: str) -> bool:
        named = MESSAGES.fullmatch(name)
        return name == STATE or (named is not None and int(named[1]) <= int(fields["files"]))

    return is_published


@dataclass(frozen=True, slots=True)
class FolderState(PublishedState):
    """The state of a publication into a message folder. ``files`` is the number of message files written so far."""

    files: int = 0


def read_published(folder: MessageFolder) -> FolderState | None:
    """Read the state of a message folder, or return None if nothing was published into it.

    Raises StorageError.
    """
    where = Where(source=f"{folder.name}/{STATE}")
    try:
        fields = folder.state()
        if fields is None:
            return None
        version = fields.pop("version")
        if version != VERSION:
            problem = f"the checkpoint has version {version}, not {VERSION}"
            raise StorageError(problem, where=where, hint=OTHER_VERSION)
        return FolderState(**fields)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"the checkpoint cannot be understood: {error!r}"
        raise StorageError(problem, where=where, hint=HINT) from error


def check_folder(folder: MessageFolder, source: str, form: Mapping[str, str]) -> FolderState:
    """Check that messages may be published into a folder, and return its state.

    The state has counts of zero if the folder is new or empty. Raises StorageError if the folder
    has other files, or was published from a different source, or with different options.
    """
    known = read_published(folder)
    # Files that no state mentions belong to something else.
    other = None if known is not None and known.files else folder.any_file()
    where = Where(source=folder.name)
    if known is None or not (known.files or other):  # no run has written a file
        if other:
            problem = f"the folder is not empty, but nothing was published into it: {other}"
            raise StorageError(problem, where=where, hint=HINT)
        # A run that found no operations to publish is continued, and one with other options begins.
        is_same = known is not None and (known.source, known.form) == (source, form)
        return known if known is not None and is_same else FolderState(source, form)
    known.check(source, form, where, FOLDER_IS, HINT)
    return replace(known, source=source)


class MessageFileWriter:
    """Writes messages into files of a folder, each about ``file_bytes`` long; see ``Sink``.

    With ``bare``, a line is only the body of a message; otherwise it is JSON with the headers. A
    crash loses uncommitted messages. ``names`` are the files that this run has published.
    """

    guarantee = EXACTLY_ONCE
    room = EVERY_OPERATION  # files end where they are large

    def __init__(self, folder: MessageFolder, *, bare: bool, file_bytes: int) -> None:
        self._folder, self._bare, self._file_bytes = folder, bare, file_bytes
        self.name = folder.name
        self._file: BinaryIO | None = None
        self._safe = self._size = 0
        self.names: list[str] = []

    def begin(self, source: str, form: Mapping[str, str], after: str | None) -> PublishedState:
        """Open the message folder; see ``Sink``."""
        self.published = check_folder(self._folder, source, form).starting_after(after)
        self._folder.begin(self._fields(self.published))
        return self.published

    def append(self, part: OutgoingMessages) -> None:
        """Write published messages to the open file of the folder, one per line."""
        if not len(part.messages):
            return
        with convert_write_errors(self._folder.name):
            file = self._open()
            for line in _lines(part, bare=self._bare):
                file.write(line)
                self._size += len(line)

    def commit(self, state: PublishedState) -> None:
        """Commit the messages written so far; see ``Sink``. If the file is large, it is published."""
        known = {one.name: getattr(state, one.name) for one in fields(PublishedState)}
        self.published = FolderState(**known, files=self.published.files)
        self._safe = self._size
        if self._size >= self._file_bytes:
            self.close()

    def flush(self) -> None:
        """Do nothing: a file is published when it is large, or at the end of the run."""

    def close(self) -> None:
        """Truncate the open file at the last commit, and publish it in the folder with the state."""
        if self._file is None or not self._safe:
            self.discard()
            self._folder.write_state(self._fields(self.published))
            return
        path = Path(self._file.name)
        with convert_write_errors(path):
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

    def _fields(self, published: FolderState) -> dict[str, Any]:
        return json.loads(json.dumps({"version": VERSION, **asdict(published)}))  # type: ignore[no-any-return]

    def discard(self) -> None:
        """Delete the open file of messages."""
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


def _lines(part: OutgoingMessages, *, bare: bool) -> Iterator[bytes]:
    messages = part.messages
    headers = {name: values.to_pylist() for name, values in messages.headers.items()}
    if messages.keys is not None:
        keys = messages.keys.cast(pa.string())
        # Truncates, and tables without a key, have none.
        headers[KEY] = pc.if_else(pc.equal(keys, ""), None, keys).to_pylist()
    for at, body in enumerate(messages.bodies.to_pylist()):
        if bare:
            if NEWLINE in body.rstrip(NEWLINE):
                place = part.origins.positions[at].as_py()
                problem = f"a message contains a line feed, but each line must be one message (operation at {place})"
                raise EncodeError(problem, where=Where(raw=body), hint="Write JSON lines")
            yield body.rstrip(NEWLINE) + NEWLINE
        else:
            own = {name: values[at] for name, values in headers.items() if values[at] is not None}
            yield format_message_line(body, own)
