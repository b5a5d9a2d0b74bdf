"""Commands about files: open, close, list, save, and the log of the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyarrow import fs

from trailgate.errors import OptionError, StorageError, Where
from trailgate.logdump.commands.saving import read_options, save
from trailgate.logdump.records.following import exists, next_path
from trailgate.logdump.session.results import Listing, Note, Result
from trailgate.logdump.session.session import DEEPEST, Command, Session
from trailgate.logdump.terms.settings import Offset
from trailgate.logdump.terms.times import time_text
from trailgate.logdump.terms.words import Words, one_of, unquoted
from trailgate.storage.files.addresses import locate, read_whole


def open_file(session: Session, words: Words) -> Iterator[Result]:
    """Open a file, or tell which one is open."""
    if words.text:
        session.open(unquoted(words.text))
    trail = session.trail
    yield Note(f"Current LogTrail is {trail.path}", {"path": trail.path, "size": trail.size})


def close_file(session: Session, words: Words) -> Iterator[Result]:
    """Close the file."""
    del words
    path = session.trail.path
    session.close()
    yield Note(f"LogTrail {path} is closed", {"path": path})


def next_trail(session: Session, words: Words) -> Iterator[Result]:
    """Open the file with the next number."""
    del words
    path = session.trail.path
    following = next_path(path)
    if following is None:
        raise OptionError("the file's name does not end in 6 or 9 digits", hint="OPEN takes any")
    if not exists(following):
        raise StorageError("there is no next file", where=Where(source=following))
    session.open(following)
    yield Note(f"LogTrail {path} closed", {"path": path})
    yield Note(f"Current LogTrail is {following}", {"path": following, "size": session.trail.size})


def list_files(session: Session, words: Words) -> Iterator[Result]:
    """List the files of a folder."""
    folder = session.path(unquoted(words.text)) or "."
    store, place = locate(folder)
    try:
        entries = store.get_file_info(fs.FileSelector(place))
    except OSError as error:
        raise StorageError("the folder cannot be read", where=Where(source=folder)) from error
    rows = [_file_row(entry, session.settings.offset) for entry in entries]
    yield Listing(f"Files in {folder}", tuple(sorted(rows)))


def _file_row(entry: fs.FileInfo, offset: Offset) -> tuple[str, str]:
    if entry.type == fs.FileType.Directory:
        return f"{entry.base_name}/", ""
    changed = (entry.mtime_ns or 0) // 1000
    return str(entry.base_name), f"{entry.size:>14} bytes  {time_text(changed, offset)}"


def change_folder(session: Session, words: Words) -> Iterator[Result]:
    """Say which folder paths are relative to."""
    if words.text:
        folder = session.path(unquoted(words.text))
        store, place = locate(folder)
        if store.get_file_info(place).type != fs.FileType.Directory:
            raise StorageError("there is no such folder", where=Where(source=folder))
        session.folder = folder
    folder = session.folder or "."
    yield Note(f"Current folder is {folder}", {"folder": folder})


def obey(session: Session, words: Words) -> Iterator[Result]:
    """Run the commands of a file."""
    path = session.path(unquoted(words.text))
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


def log(session: Session, words: Words) -> Iterator[Result]:
    """Begin or end the log of the session."""
    text = words.text
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


def write_log(session: Session, words: Words) -> Iterator[Result]:
    """Write a line into the log."""
    if session.log is None:
        raise OptionError("no log is being written", hint="LOG TO begins one")
    session.log.write(f"{unquoted(words.text)}\n")
    session.log.flush()
    return iter(())


def save_records(session: Session, words: Words) -> Iterator[Result]:
    """Write records into a new trail file."""
    options = read_options(words, comments=session.settings.save_comments)
    saved = save(session, options, session.path(options.path))
    yield Note(
        f"Saved {saved.records} records, {saved.size} bytes, into {saved.path}",
        {"path": saved.path, "records": saved.records, "bytes": saved.size, "rba": session.place},
    )


def save_comments(session: Session, words: Words) -> Iterator[Result]:
    """Set whether SAVE writes comment records by default."""
    session.set(save_comments=one_of(words.only("ON"), {"ON": True, "OFF": False}))
    said = "on" if session.settings.save_comments else "off"
    yield Note(f"Comment records in saved files: {said}", {"comments": said == "on"})


ROWS: Final = (
    Command(("OPEN", "FROM"), "OPEN [file]", "Open a trail file, or name the open one.", open_file),
    Command(("CLOSE",), "CLOSE", "Close the file.", close_file),
    Command(
        ("NEXTTRAIL", "NT"),
        "NEXTTRAIL",
        "Close the file and open the trail's next one.",
        next_trail,
    ),
    Command(("FILES", "FI", "DIR"), "FILES [folder]", "List the files of a folder.", list_files),
    Command(("CD",), "CD [folder]", "Make paths relative to a folder from here on.", change_folder),
    Command(
        ("VOLUME", "VOL", "V"),
        "VOLUME [folder]",
        "The same as CD: there are no NonStop volumes here.",
        change_folder,
    ),
    Command(("OBEY", "O"), "OBEY file", "Run the commands of a file, one a line.", obey),
    Command(
        ("LOG",),
        "LOG TO file | STOP",
        "Also write everything typed and printed into a file.",
        log,
        ("TO", "STOP"),
    ),
    Command(("WRITELOG",), "WRITELOG text", "Write a line into the session log.", write_log),
    Command(
        ("SAVE",),
        "SAVE file [!] [n RECORDS | n BYTES] [COMMENT | NOCOMMENT] [TRANSIND indicator] [TRUNCATE]",
        "Write the records from here on that pass the filters, with the file header, into a new file; ! and TRUNCATE replace an existing one.",
        save_records,
        ("RECORDS", "BYTES", "COMMENT", "NOCOMMENT", "TRANSIND", "TRUNCATE"),
    ),
    Command(
        ("SAVEFILECOMMENT",),
        "SAVEFILECOMMENT ON | OFF",
        "Whether SAVE writes comment records by default.",
        save_comments,
        ("ON", "OFF"),
    ),
)
