"""Logdump's commands about trail files and folders: OPEN, CLOSE, NEXTTRAIL, FILES and CD."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyarrow import fs

from trailgate.errors import OptionError, StorageError, Where, mask_logins
from trailgate.logdump.open_trail import trail_file_exists
from trailgate.logdump.reading import report_size
from trailgate.logdump.results import ListingResult, NoteResult, Result
from trailgate.logdump.session import LogdumpCommand, LogdumpSession
from trailgate.logdump.syntax import (
    CommandArguments,
    unquote,
)
from trailgate.logdump.times import TimeOffset, time_text
from trailgate.storage.files.addresses import locate


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
    following = session.trail.next_path
    if following is None:
        raise OptionError("the file's name does not end in 6 or 9 digits", hint="OPEN takes any")
    if not trail_file_exists(following):
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
)
