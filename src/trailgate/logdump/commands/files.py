"""Logdump's commands about files: trail files, folders, command files, the session log, and SAVE.

SAVE writes the selected records, with the file header and the metadata records that they need, to a
new trail file that other programs can read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyarrow import fs

from trailgate.arrays import Longs, Mask
from trailgate.errors import OptionError, StorageError, Where, mask_logins
from trailgate.logdump.open_trail import LogdumpChunk, OpenTrail, file_exists, next_path
from trailgate.logdump.reading import report_size
from trailgate.logdump.results import ListingResult, NoteResult, Result
from trailgate.logdump.session import DEEPEST, LogdumpCommand, LogdumpSession
from trailgate.logdump.syntax import (
    CommandArguments,
    TimeOffset,
    indicator_code,
    read_choice,
    read_number,
    time_text,
    unquote,
)
from trailgate.storage.files.addresses import locate
from trailgate.storage.files.text_files import read_file
from trailgate.trail.annotation.file_header import with_file_size
from trailgate.trail.format.record_layout import HEAD_PLACES
from trailgate.trail.format.record_types import IO_COMMENT, IO_METADATA
from trailgate.trail.format.tokens import FRAME
from trailgate.trail.records.record import TrailRecord, encode_record
from trailgate.trail.records.transactions import ONLY_RECORD

# What the number in SAVE file 10 RECORDS counts.
UNITS: Final = {
    **dict.fromkeys(("RECORDS", "RECORD", "RECS"), "records"),
    **dict.fromkeys(("BYTES", "BYTE"), "data_bytes"),
}
# Words of SAVE, and what they set.
FLAGS: Final = {
    "!": {"replace": True},
    "TRUNCATE": {"replace": True},
    "COMMENT": {"comments": True},
    "NOCOMMENT": {"comments": False},
    "NEWFORMAT": {},
}
NONSTOP: Final = "extents are those of NonStop files"
OLD: Final = "the format from before release 6 is not public"
# Words of SAVE that are refused, and the reason.
REFUSED: Final = {"EXT": NONSTOP, "MEGABYTES": NONSTOP, "OLDFORMAT": OLD}


def open_file(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """OPEN: open a trail file, or show which file is open."""
    if arguments.text:
        session.open(unquote(arguments.text))
    trail = session.trail
    path = mask_logins(trail.path)
    yield NoteResult(f"Current LogTrail is {path}", {"path": path, "size": trail.size})
    yield from report_size(trail)


def close_file(session: LogdumpSession, _arguments: CommandArguments) -> Iterator[Result]:
    """CLOSE: close the open trail file."""
    path = mask_logins(session.trail.path)
    session.close()
    yield NoteResult(f"LogTrail {path} is closed", {"path": path})


def next_trail(session: LogdumpSession, _arguments: CommandArguments) -> Iterator[Result]:
    """NEXTTRAIL: open the trail file with the next number."""
    path = session.trail.path
    following = next_path(path)
    if following is None:
        raise OptionError("the file's name does not end in 6 or 9 digits", hint="OPEN takes any")
    if not file_exists(following):
        raise StorageError("there is no next file", where=Where(source=following))
    session.open(following)
    path, following = mask_logins(path), mask_logins(following)
    yield NoteResult(f"LogTrail {path} closed", {"path": path})
    yield NoteResult(
        f"Current LogTrail is {following}", {"path": following, "size": session.trail.size}
    )
    yield from report_size(session.trail)


def list_files(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """FILES: list the files of a folder."""
    folder = session.path(unquote(arguments.text)) or "."
    offset = session.settings.time_offset
    rows = [_file_row(entry, offset) for entry in folder_entries(folder)]
    yield ListingResult(f"Files in {mask_logins(folder)}", tuple(sorted(rows)))


def folder_entries(folder: str) -> list[fs.FileInfo]:
    """Return the files and folders in a folder, for FILES and COUNT. Raises StorageError."""
    store, path = locate(folder)
    try:
        entries: list[fs.FileInfo] = store.get_file_info(fs.FileSelector(path))
    except OSError as error:
        raise StorageError("the folder cannot be read", where=Where(source=folder)) from error
    return entries


def _file_row(entry: fs.FileInfo, offset: TimeOffset) -> tuple[str, str]:
    if entry.type == fs.FileType.Directory:
        return f"{entry.base_name}/", ""
    changed = (entry.mtime_ns or 0) // 1000
    return str(entry.base_name), f"{entry.size:>14} bytes  {time_text(changed, offset)}"


def change_folder(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """CD: set the folder that relative paths start from."""
    if arguments.text:
        folder = session.path(unquote(arguments.text))
        store, path = locate(folder)
        if store.get_file_info(path).type != fs.FileType.Directory:
            raise StorageError("there is no such folder", where=Where(source=folder))
        session.folder = folder
    folder = session.folder or "."
    yield NoteResult(f"Current folder is {folder}", {"folder": folder})


def obey_file(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """OBEY: run the Logdump commands in a file."""
    path = session.path(unquote(arguments.text))
    if session.depth == DEEPEST:
        raise OptionError(f"command files are nested more than {DEEPEST} deep")
    lines = read_file(path).decode("utf-8", "replace").splitlines()
    session.depth += 1
    try:
        # -- starts a comment
        for line in lines:
            if line.strip() and not line.lstrip().startswith("--"):
                yield NoteResult(f">> {line.strip()}", {"command": line.strip()})
                yield from session.run(line)
    finally:
        session.depth -= 1


def log_session(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """LOG: start or stop the log of the session."""
    text = arguments.text
    first, _, rest = text.partition(" ")
    if first.upper() == "STOP" and not rest:
        if session.log is None:
            raise OptionError("no log is being written")
        session.log.close()
        session.log = None
        yield NoteResult("The session log is closed", {"log": None})
        return
    path = session.path(unquote(rest.strip() if first.upper() == "TO" else text))
    if not text or not path:
        raise OptionError("a log needs a file", hint="LOG TO session.txt")
    if session.log is not None:
        session.log.close()
    session.log = Path(path).open("a", encoding="utf-8")  # noqa: SIM115  LOG STOP closes it
    yield NoteResult(f"The session is logged to {path}", {"log": path})


def write_log(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """WRITELOG: write a line into the log of the session."""
    if session.log is None:
        raise OptionError("no log is being written", hint="LOG TO starts one")
    session.log.write(f"{unquote(arguments.text)}\n")
    session.log.flush()
    return iter(())


FILE_COMMANDS: Final = (
    LogdumpCommand(
        ("OPEN", "FROM"), "[file]", "Open a trail file, or show which one is open.", open_file
    ),
    LogdumpCommand(("CLOSE",), "", "Close the file.", close_file),
    LogdumpCommand(("NEXTTRAIL", "NT"), "", "Close the file and open the next one.", next_trail),
    LogdumpCommand(("FILES", "FI", "DIR"), "[folder]", "List the files of a folder.", list_files),
    LogdumpCommand(
        ("CD",), "[folder]", "Set the folder that paths are relative to.", change_folder
    ),
    LogdumpCommand(
        ("VOLUME", "VOL", "V"),
        "[folder]",
        "The same as CD: there are no NonStop volumes here.",
        change_folder,
    ),
    LogdumpCommand(("OBEY", "O"), "file", "Run the commands of a file, one per line.", obey_file),
    LogdumpCommand(
        ("LOG",),
        "TO file | STOP",
        "Write everything that is typed and printed to a file as well.",
        log_session,
    ),
    LogdumpCommand(("WRITELOG",), "text", "Write a line into the session log.", write_log),
)


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """The options of Logdump's SAVE: the new file, and what is written into it.

    With ``replace`` an existing file is replaced. ``records`` and ``data_bytes`` are limits, or
    None. ``comments`` states whether comment records are added. ``indicator`` replaces the
    transaction indicators of the records, unless it is None.
    """

    path: str
    replace: bool = False
    records: int | None = None
    data_bytes: int | None = None
    comments: bool = False
    indicator: int | None = None

    def limit_rows(self, chunk: LogdumpChunk, rows: Longs, saved: SavedFile) -> Longs:
        """Return the first of the selected records, up to the limits of SAVE."""
        if self.records is not None:
            rows = rows[: self.records - saved.records]
        if self.data_bytes is not None:
            lengths = chunk.view.data_length[rows]
            # keep the rows before which less than the limit is saved, so the last one may exceed it
            rows = rows[saved.data_bytes + np.cumsum(lengths) - lengths < self.data_bytes]
        return rows

    def is_reached(self, saved: SavedFile) -> bool:
        """Return whether a limit of SAVE is reached."""
        by_records = self.records is not None and saved.records >= self.records
        return by_records or (self.data_bytes is not None and saved.data_bytes >= self.data_bytes)


@dataclass(slots=True)
class SavedFile:
    """The trail file that SAVE has written so far. ``size`` counts all bytes of the file.

    ``records`` and ``data_bytes`` count the selected records and their data.
    """

    stream: Any = field(repr=False)
    size: int = 0
    records: int = 0
    data_bytes: int = 0

    def write(self, raw: bytes) -> None:
        """Write bytes to the trail file that SAVE creates, and add them to its size."""
        self.size += self.stream.write(raw)


def read_save_options(arguments: CommandArguments, *, comments: bool) -> SaveOptions:
    """Parse the options of SAVE. Raises OptionError."""
    plain = arguments.plain
    if not plain:
        raise OptionError("SAVE needs a file")
    values: dict[str, Any] = {"path": plain[0].removesuffix("!"), "comments": comments}
    values["replace"] = plain[0].endswith("!") and plain[0] != "!"
    rest = iter(plain[1:])
    for word in rest:
        folded = word.upper()
        if folded in FLAGS:
            values |= FLAGS[folded]
        elif folded == "TRANSIND":
            values["indicator"] = indicator_code(next(rest, ""), ONLY_RECORD)
        elif word[:1].isdigit():
            unit = next(rest, "RECORDS").upper()
            if unit not in UNITS:
                raise OptionError(f"{unit[:40]!r} is neither RECORDS nor BYTES")
            values[UNITS[unit]] = read_number(word)
        else:
            reason = next((why for name, why in REFUSED.items() if folded.startswith(name)), "")
            raise OptionError(reason or f"{word[:40]!r} is not an option of SAVE")
    return SaveOptions(**values)


def save_records(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """SAVE: write records to a new trail file, and report the result."""
    options = read_save_options(arguments, comments=session.settings.save_comments)
    path = session.path(options.path)
    saved = save(session, options, path)
    yield NoteResult(
        f"Saved {saved.records} records, {saved.size} bytes, into {path}",
        {"path": path, "records": saved.records, "bytes": saved.size, "rba": session.position},
    )


def save(session: LogdumpSession, options: SaveOptions, target: str) -> SavedFile:
    """Write the selected records from the session's position on to a trail file, and move past them.

    The file is written under another name, and renamed when it is complete.
    """
    store, path = locate(target)
    kind = store.get_file_info(path).type
    if kind not in (fs.FileType.NotFound, fs.FileType.File):
        raise StorageError("this is not a file", where=Where(source=target))
    if kind == fs.FileType.File and _is_same(store, path, session.trail.path):
        raise OptionError("a file cannot be saved into itself")
    if kind == fs.FileType.File and not options.replace:
        problem = "the file exists already"
        raise StorageError(problem, where=Where(source=target), hint="SAVE file ! replaces it")
    part = f"{path}.part"
    try:
        with store.open_output_stream(part) as stream:
            saved = SavedFile(stream)
            _write(session, options, saved)
        _set_size(store, part, session.trail, saved.size)
        store.move(part, path)
    except OSError as error:
        raise StorageError(f"cannot save: {error}", where=Where(source=target)) from error
    finally:
        if store.get_file_info(part).type == fs.FileType.File:
            store.delete_file(part)
    return saved


def _is_same(store: fs.FileSystem, path: str, other: str) -> bool:
    other_store, other_path = locate(other)
    same = (store.normalize_path(path), other_store.normalize_path(other_path))
    return bool(store == other_store) and same[0].lstrip("./") == same[1].lstrip("./")


def _write(session: LogdumpSession, options: SaveOptions, saved: SavedFile) -> None:
    """Write the file that SAVE creates: header, earlier metadata records, comments, selected records."""
    trail = session.trail
    start = session.start
    saved.write(trail.read(0, trail.header_length).tobytes())
    # Records refer to tables by index, so the metadata records that define them must come first.
    for raw in trail.metadata_records(start):
        saved.write(raw)
    if options.comments:
        saved.write(_comment(trail, f"Saved from {mask_logins(trail.path)}, RBA {start}"))
    for chunk in trail.forward(start):
        mask = session.filters.mask(chunk) | (chunk.view.io_type == IO_METADATA)
        rows = options.limit_rows(chunk, np.flatnonzero(mask), saved)
        saved.write(_bytes_of(chunk, rows, options.indicator))
        saved.records += len(rows)
        saved.data_bytes += int(chunk.view.data_length[rows].sum())
        session.position = chunk.end
        if options.is_reached(saved):
            end = chunk.view.offsets[rows[-1]] + chunk.view.lengths[rows[-1]] if len(rows) else 0
            session.position = chunk.source.base + int(end)
            break
    if options.comments:
        saved.write(_comment(trail, f"End of what was saved, {saved.records} records"))


def _bytes_of(chunk: LogdumpChunk, rows: Longs, indicator: int | None) -> bytes:
    """Return the bytes of the records to save, with a different transaction indicator if one is given."""
    data = chunk.source.data
    if indicator is not None:
        data = data.copy()
        at = 2 * FRAME + HEAD_PLACES["trans_ind"]
        changed = rows[chunk.view.io_type[rows] != IO_METADATA]
        data[chunk.view.offsets[changed] + at] = indicator
    keep: Mask = np.zeros(len(chunk), bool)
    keep[rows] = True
    # Copy each run of consecutive records at once. In ``edges`` the starts of runs (where keep
    # becomes True) and their ends alternate. Example: keep = [0, 1, 1, 0, 1] has the edges 1, 3, 4,
    # 5.
    edges = np.flatnonzero(np.diff(np.concatenate(([False], keep, [False]))))
    starts, lasts = edges[::2], edges[1::2] - 1
    ends = chunk.view.offsets[lasts] + chunk.view.lengths[lasts]
    spans = zip(chunk.view.offsets[starts].tolist(), ends.tolist(), strict=True)
    return b"".join(data[start:end].tobytes() for start, end in spans)


def _comment(trail: OpenTrail, text: str) -> bytes:
    # An assumption: the text is the record's data. Logdump's own layout is not public.
    record = TrailRecord(IO_COMMENT, data=text.encode(), node=0, order=trail.order)
    return encode_record(record)


def _set_size(store: fs.FileSystem, part: str, trail: OpenTrail, size: int) -> None:
    """Write the size of the saved trail file into its header. Readers do not need it.

    Does nothing in a store that cannot change a file, or if the trail has no header.
    """
    if not trail.header_length or not isinstance(store, fs.LocalFileSystem):
        return
    header = with_file_size(trail.read(0, trail.header_length).tobytes(), size)
    with open(part, "r+b") as file:  # noqa: PTH123  a path of the store
        file.write(header)


def set_comments(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """SAVEFILECOMMENT: set whether SAVE writes comment records by default."""
    session.set(save_comments=read_choice(arguments.only("ON"), {"ON": True, "OFF": False}))
    state = "on" if session.settings.save_comments else "off"
    yield NoteResult(f"Comment records in saved files: {state}", {"comments": state == "on"})


SAVING_COMMANDS: Final = (
    LogdumpCommand(
        ("SAVE",),
        "file [!] [n RECORDS | n BYTES] [COMMENT | NOCOMMENT] [TRANSIND indicator] [TRUNCATE]",
        "Write the records from here on that pass the filters, with the file header, into a new file; ! and TRUNCATE replace an existing one.",
        save_records,
    ),
    LogdumpCommand(
        ("SAVEFILECOMMENT",),
        "ON | OFF",
        "Whether SAVE writes comment records by default.",
        set_comments,
    ),
)
