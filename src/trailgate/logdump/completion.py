"""Complete Logdump commands, their arguments and file names with the Tab key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from trailgate.errors import OptionError
from trailgate.logdump.conversation import offered_words
from trailgate.logdump.session import LogdumpSession

FILES: Final = frozenset(("OPEN", "OBEY", "SAVE", "CD", "VOLUME", "LOG", "FILES"))


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
    """Yield the paths that begin with the typed text; folders end with a slash.

    Relative paths start at ``folder``.
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
