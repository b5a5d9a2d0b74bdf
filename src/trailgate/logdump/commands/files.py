"""Commands about files: trail files, folders, files of commands, and the session log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyarrow import fs

from trailgate.errors import OptionError, StorageError, Where, masked
from trailgate.logdump.records.following import exists, next_path
from trailgate.logdump.session.results import Listing, Note, Result
from trailgate.logdump.session.session import DEEPEST, Command, Session
from trailgate.logdump.syntax.arguments import Arguments, unquoted
from trailgate.logdump.syntax.times import TimeOffset, time_text
from trailgate.storage.files.addresses import locate, read_whole


def open_file(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Open a file, or show which one is open."""
    if arguments.text:
        session.open(unquoted(arguments.text))
    trail = session.trail
    path = masked(trail.path)
    yield Note(f"Current LogTrail is {path}", {"path": path, "size": trail.size})


def close_file(session: Session, _arguments: Arguments) -> Iterator[Result]:
    """Close the file."""
    path = masked(session.trail.path)
    session.close()
    yield Note(f"LogTrail {path} is closed", {"path": path})


def next_trail(session: Session, _arguments: Arguments) -> Iterator[Result]:
    """Open the file with the next number."""
    path = session.trail.path
    following = next_path(path)
    if following is None:
        raise OptionError("the file's name does not end in 6 or 9 digits", hint="OPEN takes any")
    if not exists(following):
        raise StorageError("there is no next file", where=Where(source=following))
    session.open(following)
    path, following = masked(path), masked(following)
    yield Note(f"LogTrail {path} closed", {"path": path})
    yield Note(f"Current LogTrail is {following}", {"path": following, "size": session.trail.size})


def list_files(session: Session, arguments: Arguments) -> Iterator[Result]:
    """List the files of a folder."""
    folder = session.path(unquoted(arguments.text)) or "."
    offset = session.settings.time_offset
    rows = [_file_row(entry, offset) for entry in folder_entries(folder)]
    yield Listing(f"Files in {masked(folder)}", tuple(sorted(rows)))


def folder_entries(folder: str) -> list[fs.FileInfo]:
    """Return the files and folders in a folder; raises StorageError."""
    store, path = locate(folder)
    try:
        found: list[fs.FileInfo] = store.get_file_info(fs.FileSelector(path))
    except OSError as error:
        raise StorageError("the folder cannot be read", where=Where(source=folder)) from error
    return found


def _file_row(entry: fs.FileInfo, offset: TimeOffset) -> tuple[str, str]:
    if entry.type == fs.FileType.Directory:
        return f"{entry.base_name}/", ""
    changed = (entry.mtime_ns or 0) // 1000
    return str(entry.base_name), f"{entry.size:>14} bytes  {time_text(changed, offset)}"


def change_folder(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Set the folder that paths are relative to."""
    if arguments.text:
        folder = session.path(unquoted(arguments.text))
        store, path = locate(folder)
        if store.get_file_info(path).type != fs.FileType.Directory:
            raise StorageError("there is no such folder", where=Where(source=folder))
        session.folder = folder
    folder = session.folder or "."
    yield Note(f"Current folder is {folder}", {"folder": folder})


def obey(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Run the commands of a file."""
    path = session.path(unquoted(arguments.text))
    if session.depth == DEEPEST:
        raise OptionError(f"command files call each other more than {DEEPEST} deep")
    lines = read_whole(path).decode("utf-8", "replace").splitlines()
    session.depth += 1
    try:
        for line in lines:
            if line.strip() and not line.lstrip().startswith("--"):
                yield Note(f">> {line.strip()}", {"command": line.strip()})
                yield from session.run(line)
    finally:
        session.depth -= 1


def log(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Start or stop the session log."""
    text = arguments.text
    first, _, rest = text.partition(" ")
    if first.upper() == "STOP" and not rest:
        if session.log is None:
            raise OptionError("no log is being written")
        session.log.close()
        session.log = None
        yield Note("The session log is closed", {"log": None})
        return
    path = session.path(unquoted(rest.strip() if first.upper() == "TO" else text))
    if not text or not path:
        raise OptionError("a log needs a file", hint="LOG TO session.txt")
    if session.log is not None:
        session.log.close()
    session.log = Path(path).open("a", encoding="utf-8")  # noqa: SIM115  LOG STOP closes it
    yield Note(f"The session is logged to {path}", {"log": path})


def write_log(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Write a line into the log."""
    if session.log is None:
        raise OptionError("no log is being written", hint="LOG TO starts one")
    session.log.write(f"{unquoted(arguments.text)}\n")
    session.log.flush()
    return iter(())


ROWS: Final = (
    Command(("OPEN", "FROM"), "[file]", "Open a trail file, or show which one is open.", open_file),
    Command(("CLOSE",), "", "Close the file.", close_file),
    Command(("NEXTTRAIL", "NT"), "", "Close the file and open the next one.", next_trail),
    Command(("FILES", "FI", "DIR"), "[folder]", "List the files of a folder.", list_files),
    Command(("CD",), "[folder]", "Set the folder that paths are relative to.", change_folder),
    Command(
        ("VOLUME", "VOL", "V"),
        "[folder]",
        "The same as CD: there are no NonStop volumes here.",
        change_folder,
    ),
    Command(("OBEY", "O"), "file", "Run the commands of a file, one a line.", obey),
    Command(
        ("LOG",),
        "TO file | STOP",
        "Write everything that is typed and printed to a file as well.",
        log,
    ),
    Command(("WRITELOG",), "text", "Write a line into the session log.", write_log),
)
