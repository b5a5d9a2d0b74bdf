"""Extract parameter files: which tables are captured, what an operation carries, what is unused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from trailgate.errors import OptionError, Where, nearest
from trailgate.model.table_patterns import NAME_PART, TablePatterns

_ALL_TABLES: Final = ("*.*",)
_ENDED_BY_SEMICOLON: Final = frozenset({"TABLE", "MAP", "SEQUENCE"})
_QUOTED: Final = r""""[^"]*"|'[^']*'"""
_COMMENT: Final = re.compile(rf"{_QUOTED}|((?:(?<=\s)|^)--)")
_SEMICOLON: Final = re.compile(rf"{_QUOTED}|(;)")
_FIRST: Final = re.compile(r"((?:\"(?:[^\"]|\"\")*\"|'[^']*'|[^\s,;\"'])+)[\s,;]*(.*)", re.DOTALL)
_PARAMS: Final = re.compile(r"PARAMS\b\s*(\(?)(.*)", re.IGNORECASE | re.DOTALL)
_OPTION: Final = "option is not used"
_FORMAT_RELEASE: Final = re.compile(r"\bFORMAT\s+RELEASE\s+(\d+\.\d+)", re.IGNORECASE)
Unused = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class CaptureRules:
    """Which tables are captured, and what updates and deletes carry (capture properties §4)."""

    compress_updates: bool = True
    update_befores: bool = False
    compress_deletes: bool = True
    tables: tuple[str, ...] = _ALL_TABLES
    excluded: tuple[str, ...] = ()

    def wants(self, table_name: str) -> bool:
        """Return whether a table is captured; patterns are compared without case."""
        if TablePatterns(self.excluded).fits_end(table_name):
            return False
        # A fixed-width record without a schema has a name of one part, which *.* would not match.
        every = self.tables == _ALL_TABLES
        return every or TablePatterns(self.tables).fits_end(table_name)


@dataclass(frozen=True, slots=True)
class ExtractParameters:
    """The parameters of a file that have an effect here, and those that have none."""

    group: str
    properties_path: str
    exttrail: str | None = None
    tables: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    compress_updates: bool = True
    update_befores: bool = False
    compress_deletes: bool = True
    format_release: str | None = None
    byte_order: str | None = None
    update_format: str | None = None
    unused: tuple[Unused, ...] = ()

    @property
    def rules(self) -> CaptureRules:
        """Return the capture rules; without a TABLE row all tables are captured."""
        return CaptureRules(
            self.compress_updates,
            self.update_befores,
            self.compress_deletes,
            self.tables or _ALL_TABLES,
            self.excluded,
        )


@dataclass(frozen=True, slots=True)
class _Statement:
    """One parameter, with the line it begins in; ``&`` and ``;`` are still in the text."""

    line: int
    text: str

    @property
    def keyword(self) -> str:
        return re.split(r"[\s,;(]", self.text, maxsplit=1)[0].upper()

    @property
    def rest(self) -> str:
        return self.text[len(self.keyword) :].rstrip("; \t").lstrip(", \t")

    @property
    def end(self) -> int | None:
        """Return where the parameter's text ends, or None if it continues in the next line."""
        if self.keyword in _ENDED_BY_SEMICOLON:
            found = _first_mark(_SEMICOLON, self.text)
            return None if found is None else found + 1
        return None if self.text.endswith("&") else len(self.text)

    def joined(self, line: str) -> _Statement:
        return replace(self, text=f"{self.text.removesuffix('&').rstrip()} {line}")

    def error(self, problem: str, hint: str = "") -> OptionError:
        return OptionError(problem, where=Where(line=self.line, field=self.keyword), hint=hint)


@dataclass(slots=True)
class _Draft:
    """What is known so far."""

    parameters: ExtractParameters = ExtractParameters("", "")
    unused: list[Unused] = field(default_factory=list)

    def note(self, statement: _Statement, text: str, reason: str) -> None:
        if text:
            self.unused.append((statement.line, text, reason))


def parse_extract(text: str, source: str = "") -> ExtractParameters:
    """Return the parameters of an Extract parameter file; raises OptionError with source and line.

    capture properties §10. What is not used is listed with its line and the reason.
    """
    draft = _Draft()
    try:
        for statement in _statements(text):
            handler = _HANDLERS.get(statement.keyword, _unknown)
            handler(draft, statement)
        _check(draft.parameters)
    except OptionError as error:
        raise error.located(source=source or None) from None
    return replace(draft.parameters, unused=tuple(draft.unused))


def _check(parameters: ExtractParameters) -> None:
    if not parameters.group:
        raise OptionError("no EXTRACT parameter", hint="A file begins with EXTRACT group")
    if not parameters.properties_path:
        hint = "Write VAM library, PARAMS properties-file"
        raise OptionError("no VAM parameter", hint=hint)


def _statements(text: str) -> Iterator[_Statement]:
    """Yield the parameters: one a line, continued by ``&``, or for TABLE until ``;``."""
    begun: _Statement | None = None
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        line = _uncommented(raw).strip()
        if not line or re.match(r"COMMENT\b", line, re.IGNORECASE):
            continue
        begun = _Statement(number, line) if begun is None else begun.joined(line)
        while begun is not None and (end := begun.end) is not None:
            yield replace(begun, text=begun.text[:end])
            rest = begun.text[end:].strip()
            begun = _Statement(number, rest) if rest else None
    if begun is not None:
        due = "';'" if begun.keyword in _ENDED_BY_SEMICOLON else "a line after '&'"
        raise begun.error(f"expected {due}, found the end of the file")


def _uncommented(line: str) -> str:
    at = _first_mark(_COMMENT, line)
    return line if at is None else line[:at]


def _first_mark(pattern: re.Pattern[str], text: str) -> int | None:
    """Return where the pattern's group first occurs outside quotes."""
    return next((found.start(1) for found in pattern.finditer(text) if found.group(1)), None)


def _first(statement: _Statement, what: str, text: str | None = None) -> tuple[str, str]:
    """Return the first word of a parameter, quotes kept, and what follows it."""
    found = _FIRST.match(statement.rest if text is None else text)
    if found is None:
        raise statement.error(f"expected {what} after {statement.keyword}")
    return found.group(1), found.group(2).strip()


def _plain(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word


def _once(statement: _Statement, earlier: str | None) -> None:
    if earlier:
        raise statement.error(f"{statement.keyword} is given twice", f"The first is {earlier}")


def _extract(draft: _Draft, statement: _Statement) -> None:
    _once(statement, draft.parameters.group)
    group, rest = _first(statement, "a group name")
    draft.parameters = replace(draft.parameters, group=_plain(group))
    draft.note(statement, rest, _OPTION)


def _vam(draft: _Draft, statement: _Statement) -> None:
    _once(statement, draft.parameters.properties_path)
    _, after = _first(statement, "a library")
    found = _PARAMS.match(after)
    if found is None:
        # OGG-00172: "no PARAMS section"
        raise statement.error("expected PARAMS and a properties file after the library")
    opened, items = found.groups()
    if opened:
        items, closed, _ = items.partition(")")
        if not closed:
            raise statement.error("no closing parenthesis after PARAMS")
    path, rest = _first(statement, "a properties file in PARAMS", items.strip())
    if not _plain(path):
        raise statement.error("expected a properties file in PARAMS")
    draft.parameters = replace(draft.parameters, properties_path=_plain(path))
    draft.note(statement, rest, "only the first item of PARAMS is used")


def _exttrail(draft: _Draft, statement: _Statement) -> None:
    _once(statement, draft.parameters.exttrail)
    path, rest = _first(statement, "a trail")
    draft.parameters = replace(draft.parameters, exttrail=_plain(path))
    found = _FORMAT_RELEASE.search(rest)
    if found is not None:
        draft.parameters = replace(draft.parameters, format_release=found[1])
        rest = (rest[: found.start()] + rest[found.end() :]).strip(", \t")
    draft.note(statement, rest, _OPTION)


def _table(draft: _Draft, statement: _Statement) -> None:
    pattern, rest = _pattern(statement)
    draft.parameters = replace(draft.parameters, tables=(*draft.parameters.tables, pattern))
    draft.note(statement, rest, _OPTION)


def _tableexclude(draft: _Draft, statement: _Statement) -> None:
    pattern, rest = _pattern(statement)
    draft.parameters = replace(draft.parameters, excluded=(*draft.parameters.excluded, pattern))
    draft.note(statement, rest, _OPTION)


def _pattern(statement: _Statement) -> tuple[str, str]:
    pattern, rest = _first(statement, "a table name")
    parts = NAME_PART.findall(pattern)
    if ".".join(parts) != pattern or (len(parts) < 2 and pattern != "*"):
        raise statement.error(f"expected SCHEMA.TABLE after {statement.keyword}, found {pattern}")
    return pattern, rest


def _switch(name: str, value: bool) -> Callable[[_Draft, _Statement], None]:
    def apply(draft: _Draft, statement: _Statement) -> None:
        setting: Mapping[str, bool] = {name: value}
        draft.parameters = replace(draft.parameters, **setting)  # type: ignore[arg-type]
        draft.note(statement, statement.rest, _OPTION)

    return apply


def _word(name: str, words: Mapping[str, str]) -> Callable[[_Draft, _Statement], None]:
    """Return what takes a parameter's word for a setting."""

    def apply(draft: _Draft, statement: _Statement) -> None:
        word, rest = _first(statement, f"one of {', '.join(words)}")
        if word.upper() not in words:
            raise statement.error(f"expected one of {', '.join(words)}, found {word}")
        setting: Mapping[str, str] = {name: words[word.upper()]}
        draft.parameters = replace(draft.parameters, **setting)  # type: ignore[arg-type]
        draft.note(statement, rest, _OPTION)

    return apply


def _unknown(draft: _Draft, statement: _Statement) -> None:
    reason = _REASONS.get(statement.keyword)
    if reason is None:
        near = nearest(statement.keyword, (*_HANDLERS, *_REASONS), cutoff=0.8)
        reason = "unknown parameter" + (f"; did you mean {near}?" if near else "")
    draft.note(statement, statement.text, reason)


_HANDLERS: Final[Mapping[str, Callable[[_Draft, _Statement], None]]] = MappingProxyType(
    {
        "EXTRACT": _extract,
        "VAM": _vam,
        "EXTTRAIL": _exttrail,
        "TABLE": _table,
        "TABLEEXCLUDE": _tableexclude,
        "COMPRESSUPDATES": _switch("compress_updates", True),
        "NOCOMPRESSUPDATES": _switch("compress_updates", False),
        "COMPRESSDELETES": _switch("compress_deletes", True),
        "NOCOMPRESSDELETES": _switch("compress_deletes", False),
        "GETUPDATEBEFORES": _switch("update_befores", True),
        "IGNOREUPDATEBEFORES": _switch("update_befores", False),
        "TRAILBYTEORDER": _word("byte_order", {"BIGENDIAN": "big", "LITTLEENDIAN": "little"}),
        "UPDATERECORDFORMAT": _word("update_format", {"FULL": "full", "COMPACT": "compact"}),
    }
)

_NO_DATABASE: Final = "no database is read"
_NOT_SENT: Final = "nothing is sent to another host"
_REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TRANLOGOPTIONS": "there is no transaction log, and one kind of capture only",
        "SETENV": "the environment is left alone",
        "SOURCEDB": _NO_DATABASE,
        "USERID": _NO_DATABASE,
        "USERIDALIAS": _NO_DATABASE,
        "SOURCEDEFS": "the properties file names the definitions",
        "RMTHOST": _NOT_SENT,
        "RMTTRAIL": _NOT_SENT,
        "REPORTCOUNT": "the run prints its own summary",
        "STATOPTIONS": "the run prints its own summary",
        "SEQUENCE": "messages carry no sequences",
    }
)
