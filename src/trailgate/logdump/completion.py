"""Complete Logdump commands, their arguments and file names with the Tab key.

``make_completer`` splits a typed line. ``offered_words`` lists the words that may follow a command:
its keywords, the table names of the open file, or record types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from trailgate.errors import OptionError, TrailgateError
from trailgate.logdump.filter_options import OPTIONS as FILTER_OPTIONS
from trailgate.logdump.session import LogdumpCommand, LogdumpSession
from trailgate.trail.format.record_types import ROWS as TYPE_ROWS

FILES: Final = frozenset(("OPEN", "OBEY", "SAVE", "CD", "VOLUME", "LOG", "FILES"))
TYPES: Final = tuple(row.name for row in TYPE_ROWS)
# A table name may follow the argument of these commands.
NAMED: Final = frozenset(("SCANFORTIME", "SCANFORRBA", "SCANFORMETADATA"))
_OF_TYPES: Final = frozenset(
    name for row in FILTER_OPTIONS if row.arguments.startswith("type") for name in row.names
)
_OF_TABLES: Final = frozenset(
    name for row in FILTER_OPTIONS if row.arguments.startswith("name, ") for name in row.names
)


def make_completer(session: LogdumpSession) -> Callable[[str], list[str]]:
    """Return a function that lists the completions of the last word of a typed line, for example ``["GHDR"]`` for ``gh``."""
    return lambda typed: list(_words(session, typed))


def _words(session: LogdumpSession, typed: str) -> Iterator[str]:
    # only the last command of a line is completed
    name, blank, rest = typed.rpartition(";")[2].lstrip().partition(" ")
    if not blank:
        yield from _matching(name, sorted(session.commands))
        return
    try:
        command, _ = session.find(name)
    except OptionError:
        return
    last = re.split(r"[ ,]", rest)[-1]
    yield from _matching(last, offered_words(session, command, rest))
    if command.names[0] in FILES:
        yield from _paths(session.folder, last)


def _matching(prefix: str, words: Iterable[str]) -> Iterator[str]:
    return (word for word in words if word.upper().startswith(prefix.upper()))


def _paths(folder: str, typed: str) -> Iterator[str]:
    """Yield the paths that begin with the typed text, as completions; folders end with a slash.

    Relative paths start at ``folder``, the session's folder.
    """
    beginning = typed.rpartition("/")[2]
    above = typed.removesuffix(beginning)
    searched = Path(folder or ".", Path(above).expanduser())
    try:
        found = sorted(path for path in searched.iterdir() if path.name.startswith(beginning))
    except OSError:
        return
    for path in found:
        yield f"{above}{path.name}{'/' if path.is_dir() else ''}"


def offered_words(session: LogdumpSession, command: LogdumpCommand, rest: str) -> Iterator[str]:
    """Yield the words that may follow a Logdump command. ``rest`` is the text typed after its name.

    The last, unfinished word is ignored; the caller compares it with the results.
    """
    name = command.names[0]
    earlier = rest.upper().replace(",", " , ").split()
    if rest and not rest[-1].isspace():
        earlier = earlier[:-1]
    if name == "HELP":
        yield from session.commands
    if name == "SCANFORTYPE":
        yield from table_names(session) if "," in earlier else TYPES
    elif name in NAMED and earlier:
        yield from table_names(session)
    elif name == "COUNT" and earlier[-1:] == ["FILE"]:
        yield from table_names(session)
        return
    elif name == "FILTER":
        option = next((word for word in reversed(earlier) if word in _OF_TYPES | _OF_TABLES), "")
        if option:
            yield from TYPES if option in _OF_TYPES else table_names(session)
            return
    yield from command.keywords


def table_names(session: LogdumpSession) -> list[str]:
    """Return the table names of the open file that completion offers.

    They are those in its first chunk of records, and those of table definitions that the session
    has read before.
    """
    if not session.is_open:
        return []
    trail = session.trail
    names: set[str] = set()
    try:
        # Reads nothing: definitions at the start of the file are in the chunk below.
        names |= trail.tables(trail.header_length).table_names
        for chunk in trail.forward(trail.header_length):
            names |= {chunk.names.strings[code] for code in chunk.names.present_codes}
            break
    except (TrailgateError, OSError):
        pass  # a command that reads the records reports the damage
    return sorted(name for name in names if name)
