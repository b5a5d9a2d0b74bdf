"""Complete Logdump commands, their arguments and file names with the Tab key."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from trailgate.errors import OptionError
from trailgate.logdump.conversation import offered_words
from trailgate.logdump.session import LogdumpSession

FILES = frozenset(("OPEN", "OBEY", "SAVE", "CD", "VOLUME", "LOG", "FILES"))


def make_completer(session: LogdumpSession) -> Completer:
    """Return a completer for a session's commands."""
    return _Commands(session)


class _Commands(Completer):
    def __init__(self, session: LogdumpSession) -> None:
        self._session = session
        self._paths = PathCompleter(expanduser=True, get_paths=lambda: [session.folder or "."])

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        # only the last command of a line is completed
        text = document.text_before_cursor.rpartition(";")[2].lstrip()
        name, blank, rest = text.partition(" ")
        if not blank:
            yield from _matching(name, sorted(self._session.commands))
            return
        try:
            command, _ = self._session.find(name)
        except OptionError:
            return
        last = re.split(r"[ ,]", rest)[-1]
        yield from _matching(last, offered_words(self._session, command, rest))
        if command.names[0] in FILES:
            inner = Document(rest.rpartition(" ")[2])
            yield from self._paths.get_completions(inner, complete_event)


def _matching(prefix: str, words: Iterable[str]) -> Iterable[Completion]:
    return (
        Completion(word, start_position=-len(prefix))
        for word in words
        if word.upper().startswith(prefix.upper())
    )
