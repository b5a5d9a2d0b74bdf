"""The command FILTER."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from trailgate.errors import OptionError
from trailgate.logdump.filters.filters import EXCLUDE, INCLUDE, Criterion, Filters, Side
from trailgate.logdump.filters.options import OPTIONS_BY_NAME, Typed
from trailgate.logdump.session.results import Lines, Note, Result
from trailgate.logdump.session.session import Command, Session
from trailgate.logdump.terms.words import Words, one_of, split_words

BARE: Final = frozenset(("IBEFORE", "BEFOREIMAGE", "IAFTER", "AFTERIMAGE"))  # nothing follows them


def filter_records(session: Session, words: Words) -> Iterator[Result]:
    """Show, set, switch or clear filters."""
    first, _, rest = words.text.partition(" ")
    verb = VERBS.get(first.upper())
    if verb is not None:
        yield from verb(session, rest.strip())
        return
    side, text = _side_of(words.text)
    first, _, rest = text.partition(" ")
    if first.upper() == "MATCH":
        yield from _match(session, rest.strip(), side)
        return
    name = one_of(first, MappingProxyType({key: key for key in OPTIONS_BY_NAME}))
    session.filters = session.filters.added(side, _criterion(session, name, text, rest.strip()))
    yield _switched(session)


def _side_of(text: str) -> tuple[str, str]:
    first, _, rest = text.partition(" ")
    asked = first.upper()
    for side in (INCLUDE, EXCLUDE):
        if len(asked) >= 3 and side.upper().startswith(asked):
            return side, rest.strip()
    return INCLUDE, text


def _criterion(session: Session, name: str, text: str, rest: str) -> Criterion:
    option = OPTIONS_BY_NAME[name]
    typed = split_words(rest)
    if not typed.plain and name not in BARE:
        raise OptionError(f"something is missing after {name}", hint=option.syntax)
    phrases = tuple(tuple(phrase) for phrase in typed.phrases())
    test = option.make(Typed(phrases, session.settings.offset, session.now()))
    return Criterion(option.names[0], text, test, option.joins)


def _show(session: Session, rest: str) -> Iterator[Result]:
    del rest
    yield show_filters(session)


def show_filters(session: Session) -> Result:
    """Return the filters as they are."""
    filters = session.filters
    lines = []
    number = 0
    for name, side in (("Include", filters.include), ("Exclude", filters.exclude)):
        lines.append(f"{name}  Match {'ALL' if side.match_all else 'ANY'}")
        for criterion in side.criteria:
            lines.append(f"  {number}: {criterion.text}")
            number += 1
    return Lines(f"Data filters are {_word(filters)}", tuple(lines))


def _switch(enabled: bool) -> Callable[[Session, str], Iterator[Result]]:
    def run(session: Session, rest: str) -> Iterator[Result]:
        del rest
        session.filters = replace(session.filters, enabled=enabled)
        yield _switched(session)

    return run


def _clear(session: Session, rest: str) -> Iterator[Result]:
    session.filters = session.filters.cleared(rest or "ALL")
    yield _switched(session)


def _match(session: Session, rest: str, side: str = INCLUDE) -> Iterator[Result]:
    match_all = one_of(rest, MappingProxyType({"ALL": True, "ANY": False}))
    changed: Side = replace(session.filters.side(side), match_all=match_all)
    session.filters = session.filters.with_side(side, changed)
    word = "ALL" if match_all else "ANY"
    yield Note(f"{side.capitalize()} filters match {word}", {"side": side, "match": word})


def _switched(session: Session) -> Note:
    filters = session.filters
    count = len(filters.include.criteria) + len(filters.exclude.criteria)
    values = {"enabled": filters.enabled, "filters": count}
    return Note(f"Data filters are {_word(filters)}, {count} set", values)


def _word(filters: Filters) -> str:
    return "ENABLED" if filters.enabled else "DISABLED"


VERBS: Final[Mapping[str, Callable[[Session, str], Iterator[Result]]]] = MappingProxyType(
    {
        "": _show,
        "SHOW": _show,
        "ON": _switch(True),
        "ENABLE": _switch(True),
        "OFF": _switch(False),
        "DISABLE": _switch(False),
        "CLEAR": _clear,
        "MATCH": _match,
    }
)
ROWS: Final = (
    Command(
        ("FILTER",),
        "FILTER [SHOW | ON | OFF | CLEAR [n | option | ALL] | [INCLUDE | EXCLUDE] MATCH ALL | ANY"
        " | [INCLUDE | EXCLUDE] option ...]",
        "Show only records that match; HELP FILTER lists the options.",
        filter_records,
        (*(verb for verb in VERBS if verb), "INCLUDE", "EXCLUDE", *OPTIONS_BY_NAME),
    ),
)
