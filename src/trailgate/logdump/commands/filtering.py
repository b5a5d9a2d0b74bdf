"""Logdump's command FILTER, which shows and changes the filters of the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from types import MappingProxyType
from typing import Final

from trailgate.errors import OptionError
from trailgate.logdump.filter_options import OPTIONS_BY_NAME, FilterOption, OptionArguments
from trailgate.logdump.filters import FilterSide, RecordFilter
from trailgate.logdump.results import NoteResult, Result, TextResult
from trailgate.logdump.session import LogdumpCommand, LogdumpSession
from trailgate.logdump.syntax import CommandArguments, read_arguments, read_choice

MATCH: Final = MappingProxyType({"ALL": True, "ANY": False})


def filter_records(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """FILTER: show, add, switch or clear filters."""
    first, rest = _first_word(arguments.text)
    verb = VERBS.get(first.upper())
    if verb is not None:
        yield verb(session, rest)
        return
    side, text = _side_of(arguments.text)
    first, rest = _first_word(text)
    if first.upper() == "MATCH":
        yield _match(session, rest, side)
        return
    one = _filter(session, read_choice(first, OPTIONS_BY_NAME), text=text, rest=rest)
    session.filters = session.filters.with_filter(side, one)
    yield _state(session)


def _first_word(text: str) -> tuple[str, str]:
    first, _, rest = text.partition(" ")
    return first, rest.strip()


def _side_of(text: str) -> tuple[FilterSide, str]:
    """Parse INCLUDE or EXCLUDE at the start of FILTER's arguments.

    Without one of them the filter includes. Returns the side and the rest of the text.
    """
    first, rest = _first_word(text)
    for side in FilterSide:
        if len(first) >= 3 and side.startswith(first.lower()):
            return side, rest
    return FilterSide.INCLUDE, text


def _filter(session: LogdumpSession, option: FilterOption, *, text: str, rest: str) -> RecordFilter:
    """Build the filter that an option of FILTER adds. Its complete text is stored for FILTER SHOW.

    ``rest`` is the text after the option's name.
    """
    typed = read_arguments(rest)
    if not typed.plain and not option.bare:
        raise OptionError(f"a value is missing after {option.names[0]}", hint=option.syntax)
    phrases = tuple(map(tuple, typed.phrases()))
    arguments = OptionArguments(phrases, session.settings.time_offset, session.now())
    return RecordFilter(option.names[0], text, option.make(arguments), option.joins)


def show_filters(session: LogdumpSession, _rest: str = "") -> Result:
    """FILTER SHOW: list all filters of the session."""
    filters = session.filters
    lines = []
    numbers = count()
    for side in FilterSide:
        listed = filters.side(side)
        lines.append(f"{side.capitalize()}  Match {'ALL' if listed.match_all else 'ANY'}")
        lines += [f"  {next(numbers)}: {one.text}" for one in listed.filters]
    return TextResult(f"Data filters are {_enable(session)}", tuple(lines))


def _switch(enabled: bool) -> Callable[[LogdumpSession, str], Result]:
    def run(session: LogdumpSession, _rest: str) -> Result:
        session.filters = replace(session.filters, enabled=enabled)
        return _state(session)

    return run


def _clear(session: LogdumpSession, rest: str) -> Result:
    session.filters = session.filters.clear(rest or "ALL")
    return _state(session)


def _match(session: LogdumpSession, rest: str, side: FilterSide = FilterSide.INCLUDE) -> Result:
    match_all = read_choice(rest, MATCH)
    session.filters = session.filters.matching(side, match_all=match_all)
    word = "ALL" if match_all else "ANY"
    return NoteResult(f"{side.capitalize()} filters match {word}", {"side": side, "match": word})


def _state(session: LogdumpSession) -> NoteResult:
    number = len(session.filters.by_number)
    values = {"enabled": session.filters.enabled, "filters": number}
    return NoteResult(f"Data filters are {_enable(session)}, {number} set", values)


def _enable(session: LogdumpSession) -> str:
    return "ENABLED" if session.filters.enabled else "DISABLED"


# By the word after FILTER; any other word is an option, which adds a filter.
VERBS: Final[Mapping[str, Callable[[LogdumpSession, str], Result]]] = MappingProxyType(
    {
        "": show_filters,
        "SHOW": show_filters,
        "ON": _switch(True),
        "ENABLE": _switch(True),
        "OFF": _switch(False),
        "DISABLE": _switch(False),
        "CLEAR": _clear,
        "MATCH": _match,
    }
)
FILTER_COMMANDS: Final = (
    LogdumpCommand(
        ("FILTER",),
        "[SHOW | ON | OFF | CLEAR [n | option | ALL] | [INCLUDE | EXCLUDE] MATCH ALL | ANY"
        " | [INCLUDE | EXCLUDE] option ...]",
        "Show only records that match; HELP FILTER lists the options.",
        filter_records,
        (*(verb for verb in VERBS if verb), "INCLUDE", "EXCLUDE", *OPTIONS_BY_NAME),
    ),
)
