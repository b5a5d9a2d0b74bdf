"""Extract parameter files read: what is obeyed, what changes nothing, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trailgate.definitions.parameter_files import Statement, statements, unquoted
from trailgate.errors import OptionError, Where, nearest
from trailgate.messages.extract.parameter_reasons import NOTED, REFUSED, TRANSACTION_LOG
from trailgate.messages.extract.rules import ALL, CaptureRules, TableRule
from trailgate.messages.extract.table_clauses import read_table
from trailgate.messages.extract.trail_options import read_trail_options
from trailgate.model.table_patterns import NAME_PART
from trailgate.operations.expressions.values import Surroundings

_PARAMS: Final = re.compile(r"PARAMS\b\s*(\(?)(.*)", re.IGNORECASE | re.DOTALL)
_SETENV: Final = re.compile(r"\(\s*(\w+)\s*=\s*(.*?)\s*\)", re.DOTALL)
_UNKNOWN_OPTION: Final = "unknown option"
_LETTERS: Final = {"INSERTS": "I", "UPDATES": "U", "DELETES": "D", "TRUNCATES": "T"}


class Remark(NamedTuple):
    """A parameter or option that has no effect here: its line, its text and the reason."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExtractParameters:
    """The parameters of a file that have an effect here, and those that have none.

    ``unused`` are those that change nothing about the data; ``ignored`` would, and were let through by ``ignore_unsupported``.
    """

    group: str
    properties_path: str
    trail: str | None = None
    sourcedefs: str | None = None
    tables: tuple[TableRule, ...] = ()
    excluded: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()
    compress_updates: bool = True
    update_befores: bool = False
    compress_deletes: bool = True
    format_release: str | None = None
    byte_order: str | None = None
    update_format: str | None = None
    max_bytes: int | None = None
    environment: tuple[tuple[str, str], ...] = ()
    unused: tuple[Remark, ...] = ()
    ignored: tuple[Remark, ...] = ()

    @property
    def rules(self) -> CaptureRules:
        """Return the capture rules; without a TABLE row all tables are captured."""
        return CaptureRules(
            compress_updates=self.compress_updates,
            update_befores=self.update_befores,
            compress_deletes=self.compress_deletes,
            tables=self.tables or (ALL,),
            excluded=self.excluded,
            users=self.users,
            transactions=self.transactions,
            surroundings=Surroundings(group=self.group, variables=self.environment),
        )


@dataclass(slots=True)
class _Draft:
    """What is known so far; ``not_taken`` are the letters of operations that TABLE statements now ignore."""

    parameters: ExtractParameters = ExtractParameters("", "")
    not_taken: set[str] = field(default_factory=set)
    unused: list[Remark] = field(default_factory=list)
    refused: list[Remark] = field(default_factory=list)

    def set(self, **members: Any) -> None:
        self.parameters = replace(self.parameters, **members)

    def add(self, member: str, *items: object) -> None:
        self.set(**{member: (*getattr(self.parameters, member), *items)})

    def note(self, statement: Statement, text: str, reason: str) -> None:
        self.unused.append(Remark(statement.line, text, reason))

    def refuse(self, statement: Statement, text: str, reason: str = _UNKNOWN_OPTION) -> None:
        if text:
            self.refused.append(Remark(statement.line, text, reason))


def parse_extract(
    text: str, source: str = "", *, ignore_unsupported: bool = False
) -> ExtractParameters:
    """Return the parameters of an Extract parameter file; raises OptionError with source and line.

    capture properties §10. A parameter that would change which data are written, or how, and is not obeyed, is an error,
    unless it is to be ignored.
    """
    draft = _Draft()
    try:
        for statement in statements(text):
            handler = _HANDLERS.get(statement.keyword, _not_obeyed)
            handler(draft, statement)
        _check(draft.parameters)
        if draft.refused and not ignore_unsupported:
            raise _refusal(draft.refused)
    except OptionError as error:
        raise error.located(source=source or None) from None
    return replace(draft.parameters, unused=tuple(draft.unused), ignored=tuple(draft.refused))


def _refusal(refused: list[Remark]) -> OptionError:
    first, others = refused[0], len(refused) - 1
    problem = f"{first.text} is not obeyed: {first.reason}"
    more = (
        f" {others} more in this file {'is' if others == 1 else 'are'} not obeyed."
        if others
        else ""
    )
    hint = f"It would change what is captured.{more} Remove it, or capture without it: --ignore-unsupported (ignore_unsupported)"
    keyword = re.split(r"[\s,;(]", first.text, maxsplit=1)[0]
    return OptionError(problem, where=Where(line=first.line, field=keyword), hint=hint)


def _check(parameters: ExtractParameters) -> None:
    if not parameters.group:
        raise OptionError("no EXTRACT parameter", hint="A file begins with EXTRACT group")
    if not parameters.properties_path:
        hint = "Write VAM library, PARAMS properties-file"
        raise OptionError("no VAM parameter", hint=hint)


def _once(statement: Statement, earlier: str | None, hint: str = "") -> None:
    if earlier:
        problem = f"{statement.keyword} is given twice"
        raise statement.error(problem, hint or f"The first is {earlier}")


def _extract(draft: _Draft, statement: Statement) -> None:
    _once(statement, draft.parameters.group)
    group, rest = statement.first("a group name")
    draft.set(group=unquoted(group))
    draft.refuse(statement, rest)


def _vam(draft: _Draft, statement: Statement) -> None:
    _once(statement, draft.parameters.properties_path)
    _, after = statement.first("a library")
    found = _PARAMS.match(after)
    if found is None:
        # OGG-00172: "no PARAMS section"
        raise statement.error("expected PARAMS and a properties file after the library")
    opened, items = found.groups()
    if opened:
        items, closed, _ = items.partition(")")
        if not closed:
            raise statement.error("no closing parenthesis after PARAMS")
    path, rest = statement.first("a properties file in PARAMS", items.strip())
    if not unquoted(path):
        raise statement.error("expected a properties file in PARAMS")
    draft.set(properties_path=unquoted(path))
    draft.refuse(statement, rest, "only the first item of PARAMS is used")


def _trail(draft: _Draft, statement: Statement) -> None:
    """Take a trail or file; all of them are trails here, on this machine."""
    hint = "A run writes one trail: give each a parameter file of its own"
    _once(statement, draft.parameters.trail, hint)
    path, rest = statement.first("a trail")
    draft.set(trail=unquoted(path))
    members, noted, refused = read_trail_options(statement, rest)
    draft.set(**members)
    for text, reason in noted:
        draft.note(statement, text, reason)
    for text, reason in refused:
        draft.refuse(statement, text, reason)
    if statement.keyword.startswith("RMT"):
        draft.note(statement, statement.text, "the trail is written on this machine")
    if statement.keyword.endswith("FILE"):
        draft.note(statement, statement.text, "its files are numbered, as those of a trail are")


def _table(draft: _Draft, statement: Statement) -> None:
    pattern, rest = _pattern(statement)
    ignored = "".join(one for one in _LETTERS.values() if one in draft.not_taken)
    rule = TableRule(pattern, ignored, line=statement.line)
    rule, refused = read_table(statement, rule, rest)
    draft.add("tables", rule)
    for option in refused:
        draft.refuse(statement, option.text, option.reason)


def _tableexclude(draft: _Draft, statement: Statement) -> None:
    pattern, rest = _pattern(statement)
    draft.add("excluded", pattern)
    draft.refuse(statement, rest)


def _pattern(statement: Statement) -> tuple[str, str]:
    pattern, rest = statement.first("a table name")
    parts = NAME_PART.findall(pattern)
    if ".".join(parts) != pattern or (len(parts) < 2 and pattern != "*"):
        raise statement.error(f"expected SCHEMA.TABLE after {statement.keyword}, found {pattern}")
    return pattern, rest


def _operations(letter: str, *, taken: bool) -> Callable[[_Draft, Statement], None]:
    """Return what lets the TABLE statements that follow take operations, or not."""

    def apply(draft: _Draft, statement: Statement) -> None:
        (draft.not_taken.discard if taken else draft.not_taken.add)(letter)
        draft.refuse(statement, statement.rest)

    return apply


def _switch(name: str, value: bool) -> Callable[[_Draft, Statement], None]:
    """Return what sets a switch of the whole run.

    In GoldenGate it would hold for the TABLE statements that follow, so one between them is refused.
    """

    def apply(draft: _Draft, statement: Statement) -> None:
        if draft.parameters.tables and getattr(draft.parameters, name) != value:
            line = draft.parameters.tables[0].line
            problem = (
                f"{statement.keyword} follows TABLE of line {line}, which it would not hold for"
            )
            raise statement.error(problem, "Write it before the first TABLE: it holds for all here")
        draft.set(**{name: value})
        draft.refuse(statement, statement.rest)

    return apply


def _word(name: str, words: Mapping[str, str]) -> Callable[[_Draft, Statement], None]:
    """Return what takes a parameter's word for a setting."""

    def apply(draft: _Draft, statement: Statement) -> None:
        word, rest = statement.first(f"one of {', '.join(words)}")
        if word.upper() not in words:
            raise statement.error(f"expected one of {', '.join(words)}, found {word}")
        draft.set(**{name: words[word.upper()]})
        draft.refuse(statement, rest)

    return apply


def _excludeuser(draft: _Draft, statement: Statement) -> None:
    user, rest = statement.first("a user")
    draft.add("users", unquoted(user))
    draft.refuse(statement, rest)


def _tranlogoptions(draft: _Draft, statement: Statement) -> None:
    rest = statement.rest
    if not rest:
        raise statement.error("expected an option after TRANLOGOPTIONS")
    while rest:
        word, rest = statement.first("an option", rest)
        row = TRANSACTION_LOG.get(word.upper())
        if row is None:
            draft.refuse(statement, f"TRANLOGOPTIONS {word} {rest}".strip(), _UNKNOWN_OPTION)
            return
        value = ""
        if row.takes_value:
            value, rest = statement.first(f"a value of {word}", rest)
        if row.member:
            draft.add(row.member, unquoted(value))
        else:
            draft.note(statement, f"TRANLOGOPTIONS {word} {value}".strip(), row.reason)


def _sourcedefs(draft: _Draft, statement: Statement) -> None:
    _once(statement, draft.parameters.sourcedefs)
    path, rest = statement.first("a definitions file")
    draft.set(sourcedefs=unquoted(path))
    draft.refuse(statement, rest)


def _setenv(draft: _Draft, statement: Statement) -> None:
    found = _SETENV.search(statement.rest)
    if found is None:
        raise statement.error("expected (NAME = value) after SETENV")
    draft.add("environment", (found[1], unquoted(found[2])))
    draft.note(statement, statement.text, "only @GETENV ('OSVARIABLE', ...) sees it")


def _recovery(draft: _Draft, statement: Statement) -> None:
    word, rest = statement.first("APPENDMODE or OVERWRITEMODE")
    if word.upper() not in ("APPENDMODE", "OVERWRITEMODE"):
        raise statement.error(f"expected APPENDMODE or OVERWRITEMODE, found {word}")
    reason = "a run publishes whole files, so there is nothing to overwrite or to continue"
    draft.note(statement, f"{statement.keyword} {word}", reason)
    draft.refuse(statement, rest)


def _not_obeyed(draft: _Draft, statement: Statement) -> None:
    """Note a parameter that changes nothing about the data; refuse any other one."""
    text = statement.text.rstrip("; \t")
    if statement.keyword in NOTED:
        draft.note(statement, text, NOTED[statement.keyword])
        return
    reason = REFUSED.get(statement.keyword)
    if reason is None:
        near = nearest(statement.keyword, (*_HANDLERS, *NOTED, *REFUSED), cutoff=0.8)
        reason = "unknown parameter" + (f"; did you mean {near}?" if near else "")
    draft.refuse(statement, text, reason)


_HANDLERS: Final[Mapping[str, Callable[[_Draft, Statement], None]]] = MappingProxyType(
    {
        "EXTRACT": _extract,
        "VAM": _vam,
        "EXTTRAIL": _trail,
        "EXTFILE": _trail,
        "RMTTRAIL": _trail,
        "RMTFILE": _trail,
        "SOURCEDEFS": _sourcedefs,
        "TABLE": _table,
        "TABLEEXCLUDE": _tableexclude,
        "EXCLUDEUSER": _excludeuser,
        "TRANLOGOPTIONS": _tranlogoptions,
        "RECOVERYOPTIONS": _recovery,
        "SETENV": _setenv,
        "COMPRESSUPDATES": _switch("compress_updates", True),
        "NOCOMPRESSUPDATES": _switch("compress_updates", False),
        "COMPRESSDELETES": _switch("compress_deletes", True),
        "NOCOMPRESSDELETES": _switch("compress_deletes", False),
        "GETUPDATEBEFORES": _switch("update_befores", True),
        "IGNOREUPDATEBEFORES": _switch("update_befores", False),
        "TRAILBYTEORDER": _word("byte_order", {"BIGENDIAN": "big", "LITTLEENDIAN": "little"}),
        "UPDATERECORDFORMAT": _word("update_format", {"FULL": "full", "COMPACT": "compact"}),
        **{f"GET{name}": _operations(letter, taken=True) for name, letter in _LETTERS.items()},
        **{f"IGNORE{name}": _operations(letter, taken=False) for name, letter in _LETTERS.items()},
    }
)
OBEYED: Final = frozenset(_HANDLERS)
