"""Extract parameter files: what is obeyed, what changes nothing, and what is refused.

A file is cut into statements (``definitions``), and each statement is looked up by its first word. Each parameter, each option of a TABLE statement and each option of EXTTRAIL,
EXTFILE, RMTTRAIL and RMTFILE is one row, which states what it sets, or why it is not obeyed. What would change the capture and is not obeyed is an error, unless it is to be
ignored; then it is listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from trailgate.definitions.parameter_files import Clause, Statement, parts, statements, unquote
from trailgate.definitions.parameter_macros import ReadFile
from trailgate.errors import OptionError, Where, did_you_mean, nearest
from trailgate.expressions.extract_parameters import (
    NOTED,
    REASONS,
    REFUSED,
    TABLE_NOTED,
    TRANSACTION_LOG,
)
from trailgate.expressions.foreign_parameters import OF_REPLICAT, foreign_reason
from trailgate.expressions.parser import parse_condition, parse_value
from trailgate.expressions.selection import ALL, CaptureRules, Condition, TableRule, Token
from trailgate.expressions.values import Environment
from trailgate.model.table_patterns import NAME_PART, name_parts

OPERATIONS: Final = {"INSERT": "I", "UPDATE": "U", "DELETE": "D", "TRUNCATE": "T"}
NAMES: Final = re.compile(r"\"(?:[^\"]|\"\")+\"|[^\s,\"]+")
TOKEN: Final = re.compile(r"(\"[^\"]+\"|'[^']+'|[^\s=]+)\s*=\s*(.*)", re.DOTALL)
_LOG_WORD: Final = re.compile(r"\([^()]*(?:\([^()]*\)[^()]*)*\)|\"[^\"]*\"|'[^']*'|[^\s,()\"']+")
_LIMIT: Final = re.compile(r"(ON|IGNORE)\s+(INSERT|UPDATE|DELETE)S?", re.IGNORECASE)


def _table(draft: _Draft, statement: Statement) -> None:
    """Take a TABLE statement with its options."""
    pattern, rest = table_pattern(statement)
    pattern = with_catalog(draft.catalog, pattern)
    ignored = "".join(one for one in OPERATIONS.values() if one in draft.not_taken)
    rule = TableRule(pattern, ignored, line=statement.line, source=statement.source)
    for clause in statement.clauses(rest):
        read = CLAUSES.get(clause.name)
        if read is None:
            _not_obeyed_in_table(draft, statement, clause)
            continue
        if not clause.argument:
            raise statement.error(f"expected parentheses after {clause.name}")
        try:
            rule = read(rule, clause, statement)
        except OptionError as error:
            raise statement.place(error, clause.name) from None
    if rule.columns and rule.without:
        raise statement.error("COLS and COLSEXCEPT are given together")
    draft.add("tables", rule)


def _not_obeyed_in_table(draft: _Draft, statement: Statement, clause: Clause) -> None:
    if clause.name in TABLE_NOTED:
        draft.note(statement, clause.text, TABLE_NOTED[clause.name])
        return
    reason = REASONS.get(clause.name) or foreign_reason(clause.name, OF_REPLICAT)
    if not reason:
        near = did_you_mean(clause.name, (*CLAUSES, *REASONS, *TABLE_NOTED))
        reason = f"{_UNKNOWN_OPTION}. {near}".strip()
    draft.refuse(statement, clause.text, reason)


def with_catalog(catalog: str, pattern: str) -> str:
    """Return a pattern of tables with the catalog of SOURCECATALOG, if it has none of its own."""
    has_catalog = len(name_parts(pattern)) != 2
    return pattern if has_catalog or not catalog else f"{catalog}.{pattern}"


def column_names(member: str) -> Callable[[TableRule, Clause, Statement], TableRule]:
    """Return what reads the names of columns."""

    def read(rule: TableRule, clause: Clause, statement: Statement) -> TableRule:
        if getattr(rule, member):
            raise statement.error(f"{clause.name} is given twice")
        argument = clause.argument or ""
        names = tuple(unquote(name) for name in NAMES.findall(argument))
        if not names or NAMES.sub("", argument).strip(" \t,"):
            raise statement.error(f"expected names of columns, found {argument!r}")
        changes: Mapping[str, Any] = {member: names}
        return replace(rule, **changes)

    return read


def read_condition(rule: TableRule, clause: Clause, statement: Statement) -> TableRule:
    """Return the rule with a FILTER or WHERE; FILTER may limit itself to some operations."""
    limits, words = "", list(parts(clause.argument or ""))
    ignored = ""
    while clause.name == "FILTER" and len(words) > 1 and (found := _LIMIT.fullmatch(words[0])):
        letter = OPERATIONS[found[2].upper()]
        limits += letter if found[1].upper() == "ON" else ""
        ignored += letter if found[1].upper() == "IGNORE" else ""
        words.pop(0)
    applied = "".join(one for one in limits or "IUD" if one not in ignored)
    expression = parse_condition(", ".join(words), ansi_quotes=statement.ansi_quotes)
    condition = Condition(clause.name, expression, applied)
    return replace(rule, conditions=(*rule.conditions, condition))


def _tokens(rule: TableRule, clause: Clause, statement: Statement) -> TableRule:
    tokens = list(rule.tokens)
    for part in parts(clause.argument or ""):
        found = TOKEN.fullmatch(part)
        if found is None:
            raise statement.error(f"expected NAME = value in TOKENS, found {part!r}")
        name = unquote(found[1])
        if name in {token.name for token in tokens}:
            raise statement.error(f"the token {name} is given twice")
        value = parse_value(found[2], ansi_quotes=statement.ansi_quotes)
        tokens.append(Token(name, value))
    return replace(rule, tokens=tuple(tokens))


CLAUSES: Final[Mapping[str, Callable[[TableRule, Clause, Statement], TableRule]]] = (
    MappingProxyType(
        {
            "KEYCOLS": column_names("key"),
            "COLS": column_names("columns"),
            "COLSEXCEPT": column_names("without"),
            "FILTER": read_condition,
            "WHERE": read_condition,
            "TOKENS": _tokens,
        }
    )
)

MEGABYTE: Final = 1_000_000


class TrailOption(NamedTuple):
    """How an option is written, and what it sets; else why it changes nothing (noted) or is refused."""

    pattern: re.Pattern[str]
    member: str = ""
    convert: Callable[[str], Any] = str
    noted: str = ""
    refused: str = ""


def _row(
    pattern: str, member: str = "", convert: Callable[[str], Any] = str, **reasons: str
) -> TrailOption:
    return TrailOption(re.compile(pattern, re.IGNORECASE), member, convert, **reasons)


OPTIONS: Final = (
    _row(r"FORMAT\s+RELEASE\s+([\d.]+)", "format_release"),
    _row(r"MEGABYTES\s+(\d+)", "max_bytes", lambda text: int(text) * MEGABYTE),
    _row(
        r"TRAILBYTEORDER\s+(BIGENDIAN|LITTLEENDIAN)",
        "byte_order",
        lambda text: text.upper().removesuffix("ENDIAN").lower(),
    ),
    _row(r"MAXFILES\s+\d+", noted="as many files are written as there are data"),
    _row(r"APPEND\b", noted="a run always adds to the trail"),
    _row(r"OBJECTDEFS\b", noted="files of release 12.2 and later always define their tables"),
    _row(r"PURGE\b", refused="earlier files are kept: remove them yourself"),
    _row(r"NO_OBJECTDEFS\b", refused="files of release 12.2 and later define their tables"),
)


_PARAMS: Final = re.compile(r"PARAMS\b\s*(\(?)(.*)", re.IGNORECASE | re.DOTALL)
_SETENV: Final = re.compile(r"\(\s*(\w+)\s*=\s*(.*?)\s*\)", re.DOTALL)
_UNKNOWN_OPTION: Final = "unknown option"
Draft = TypeVar("Draft")
# Parameters that show what an Extract without VAM reads.
_OTHER_EXTRACTS: Final = {
    "PASSTHRU": "pumps a trail",
    "RMTHOST": "sends a trail to another machine",
    "RMTHOSTOPTIONS": "sends a trail to another machine",
    "SOURCEISTABLE": "loads tables",
    "RMTTASK": "loads tables",
    "USERIDALIAS": "reads a database's log",
    "USERID": "reads a database's log",
    "SOURCEDB": "reads a database's log",
    "TRANLOGOPTIONS": "reads a database's log",
}


class Remark(NamedTuple):
    """A parameter or option that has no effect here: its line, its text and the reason."""

    line: int
    text: str
    reason: str


def remark_of(statement: Statement, text: str, reason: str) -> Remark:
    """Return a remark on a part of a statement; that of an included file names the file."""
    shown = " ".join(text.rstrip("; \t").split())
    if statement.source:
        shown += f" ({statement.source})"
    return Remark(statement.line, shown, reason)


@dataclass(slots=True, kw_only=True)
class Remarks:
    """The parameters of a file that change nothing here (``unused``), and those that would and are not obeyed (``refused``)."""

    unused: list[Remark] = field(default_factory=list)
    refused: list[Remark] = field(default_factory=list)

    def note(self, statement: Statement, text: str, reason: str) -> None:
        """Add a parameter or an option that changes nothing."""
        self.unused.append(remark_of(statement, text, reason))

    def refuse(self, statement: Statement, text: str, reason: str = _UNKNOWN_OPTION) -> None:
        """Add a parameter or an option that is not obeyed, unless the text is empty."""
        if text:
            self.refused.append(remark_of(statement, text, reason))


def obey_statements(
    text: str,
    read: ReadFile | None,
    draft: Draft,
    handlers: Mapping[str, Callable[[Draft, Statement], None]],
    otherwise: Callable[[Draft, Statement], None],
) -> None:
    """Call the handler of each statement of a parameter file, or ``otherwise`` if its keyword has none. Raises OptionError with the line."""
    for statement in statements(text, read):
        try:
            handlers.get(statement.keyword, otherwise)(draft, statement)
        except OptionError as error:
            raise statement.place(error) from None


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
            environment=Environment(group=self.group, variables=self.environment),
        )


@dataclass(slots=True)
class _Draft(Remarks):
    """What is known so far; ``not_taken`` are the letters of operations that TABLE statements now ignore."""

    parameters: ExtractParameters = ExtractParameters("", "")
    not_taken: set[str] = field(default_factory=set)
    catalog: str = ""

    def set(self, **members: Any) -> None:
        self.parameters = replace(self.parameters, **members)

    def add(self, member: str, *items: object) -> None:
        self.set(**{member: (*getattr(self.parameters, member), *items)})


def parse_extract(
    text: str,
    source: str = "",
    *,
    read: ReadFile | None = None,
    ignore_unsupported: bool = False,
) -> ExtractParameters:
    """Return the parameters of an Extract parameter file; raises OptionError with source and line.

    ``read`` returns the text of a file that OBEY or INCLUDE names. capture properties §10. A parameter that would change which data are written, or how, and is not obeyed, is an error,
    unless it is to be ignored.
    """
    draft = _Draft()
    try:
        obey_statements(text, read, draft, _HANDLERS, _not_obeyed)
        _check(draft)
        if draft.refused and not ignore_unsupported:
            raise refusal(draft.refused, "It would change what is captured", "capture")
    except OptionError as error:
        raise error.with_place(source=source or None) from None
    return replace(draft.parameters, unused=tuple(draft.unused), ignored=tuple(draft.refused))


def refusal(refused: Sequence[Remark], effect: str, verb: str) -> OptionError:
    """Return the error of parameters that are not obeyed: the first, and the number of the others."""
    first, others = refused[0], len(refused) - 1
    problem = f"{first.text} is not obeyed: {first.reason}"
    more = (
        f" {others} more in this file {'is' if others == 1 else 'are'} not obeyed."
        if others
        else ""
    )
    hint = f"{effect}.{more} Remove it, or {verb} without it: --ignore-unsupported (ignore_unsupported)"
    keyword = re.split(r"[\s,;(]", first.text, maxsplit=1)[0]
    return OptionError(problem, where=Where(line=first.line, field=keyword), hint=hint)


def _check(draft: _Draft) -> None:
    parameters = draft.parameters
    if not parameters.group:
        raise OptionError("no EXTRACT parameter", hint="A file begins with EXTRACT group")
    if parameters.properties_path:
        return
    given = {one.text.split()[0].upper(): one for one in (*draft.unused, *draft.refused)}
    for name, what in _OTHER_EXTRACTS.items():
        if name in given:
            problem = (
                f"{given[name].text} is of an Extract that {what}, and this one captures messages"
            )
            hint = "VAM library, PARAMS properties-file names the messages' properties. A trail is applied by trailgate apply, and read by trailgate show"
            raise OptionError(problem, where=Where(line=given[name].line, field=name), hint=hint)
    raise OptionError("no VAM parameter", hint="Write VAM library, PARAMS properties-file")


def _once(statement: Statement, earlier: str | None, hint: str = "") -> None:
    if earlier:
        problem = f"{statement.keyword} is given twice"
        raise statement.error(problem, hint or f"The first is {earlier}")


def _value(member: str, what: str, *, several: bool = False) -> Callable[[_Draft, Statement], None]:
    """Return what takes a parameter's one value, or adds it to those before."""

    def apply(draft: _Draft, statement: Statement) -> None:
        if not several:
            _once(statement, getattr(draft.parameters, member))
        value, rest = statement.first(what)
        (draft.add(member, unquote(value)) if several else draft.set(**{member: unquote(value)}))
        draft.refuse(statement, rest)

    return apply


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
    if not unquote(path):
        raise statement.error("expected a properties file in PARAMS")
    draft.set(properties_path=unquote(path))
    draft.refuse(statement, rest, "only the first item of PARAMS is used")


def _trail(draft: _Draft, statement: Statement) -> None:
    """Take a trail or file; all of them are trails here, on this machine."""
    hint = "A run writes one trail: give each a parameter file of its own"
    _once(statement, draft.parameters.trail, hint)
    path, rest = statement.first("a trail")
    draft.set(trail=unquote(path))
    while rest := rest.strip(" \t,"):
        matches = ((option, option.pattern.match(rest)) for option in OPTIONS)
        option, found = next(((o, found) for o, found in matches if found), (None, None))
        if option is None or found is None:
            draft.refuse(statement, rest, f"unknown option of {statement.keyword}")
            break
        if option.member:
            draft.set(**{option.member: option.convert(found[1])})
        elif option.noted:
            draft.note(statement, found[0], option.noted)
        else:
            draft.refuse(statement, found[0], option.refused)
        rest = rest[found.end() :]
    if statement.keyword.startswith("RMT"):
        draft.note(statement, statement.text, "the trail is written on this machine")
    if statement.keyword.endswith("FILE"):
        draft.note(statement, statement.text, "its files are numbered, as those of a trail are")


def _tableexclude(draft: _Draft, statement: Statement) -> None:
    pattern, rest = table_pattern(statement)
    draft.add("excluded", with_catalog(draft.catalog, pattern))
    draft.refuse(statement, rest)


def _exclude_all_of(parts: int) -> Callable[[_Draft, Statement], None]:
    """Return what leaves out all tables of a schema or of a catalog: a name of so many parts before the table's."""

    def apply(draft: _Draft, statement: Statement) -> None:
        name, rest = statement.first("a name")
        more = ".*" * (3 - len(name_parts(name)) if parts == 2 else 1)
        draft.add("excluded", name + more)
        draft.refuse(statement, rest)

    return apply


def _sourcecatalog(draft: _Draft, statement: Statement) -> None:
    """Take the catalog of the tables in two parts that follow."""
    draft.catalog, rest = statement.first("a catalog")
    draft.refuse(statement, rest)


def _obeyed_already(_: _Draft, __: Statement) -> None:
    """Take a parameter that was obeyed while the file was cut into statements."""


def table_pattern(statement: Statement) -> tuple[str, str]:
    """Return the pattern of tables that a statement begins with, and what follows."""
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


def _tranlogoptions(draft: _Draft, statement: Statement) -> None:
    """Take the options of the log: each is a word, with values up to the next option's word."""
    if not statement.rest:
        raise statement.error("expected an option after TRANLOGOPTIONS")
    for word, values in _log_options(statement.rest):
        text = f"TRANLOGOPTIONS {' '.join((word, *values))}"
        row = TRANSACTION_LOG.get(word.upper())
        if row is None:
            near = did_you_mean(word, TRANSACTION_LOG)
            draft.refuse(statement, text, f"{_UNKNOWN_OPTION}. {near}".strip())
        elif row.member:
            if len(values) != 1:
                raise statement.error(f"expected one value of {word}, found {' '.join(values)!r}")
            draft.add(row.member, unquote(values[0]))
        elif row.noted:
            draft.note(statement, text, row.noted)
        else:
            draft.refuse(statement, text, row.refused)


def _log_options(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the options of TRANLOGOPTIONS with their values; what is in parentheses is one value."""
    words = _LOG_WORD.findall(text)
    begins = [at for at, word in enumerate(words) if not at or word.upper() in TRANSACTION_LOG]
    for begin, end in zip(begins, [*begins[1:], len(words)], strict=True):
        yield words[begin], words[begin + 1 : end]


def read_variable(statement: Statement) -> tuple[str, str]:
    """Return the name and the value of SETENV."""
    found = _SETENV.search(statement.rest)
    if found is None:
        raise statement.error("expected (NAME = value) after SETENV")
    return found[1], unquote(found[2])


def _setenv(draft: _Draft, statement: Statement) -> None:
    draft.add("environment", read_variable(statement))
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
    reason = REFUSED.get(statement.keyword) or foreign_reason(statement.keyword, OF_REPLICAT)
    if statement.keyword in OF_LINES:
        reason = IN_MACRO
    if not reason:
        near = nearest(statement.keyword, (*_HANDLERS, *NOTED, *REFUSED))
        reason = "unknown parameter" + (f"; did you mean {near}?" if near else "")
    draft.refuse(statement, text, reason)


_HANDLERS: Final[Mapping[str, Callable[[_Draft, Statement], None]]] = MappingProxyType(
    {
        "EXTRACT": _value("group", "a group name"),
        "VAM": _vam,
        "EXTTRAIL": _trail,
        "EXTFILE": _trail,
        "RMTTRAIL": _trail,
        "RMTFILE": _trail,
        "SOURCEDEFS": _value("sourcedefs", "a definitions file"),
        "TABLE": _table,
        "TABLEEXCLUDE": _tableexclude,
        "SCHEMAEXCLUDE": _exclude_all_of(1),
        "CATALOGEXCLUDE": _exclude_all_of(2),
        "SOURCECATALOG": _sourcecatalog,
        "USEANSISQLQUOTES": _obeyed_already,
        "NOUSEANSISQLQUOTES": _obeyed_already,
        "EXCLUDEUSER": _value("users", "a user", several=True),
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
        **{f"GET{name}S": _operations(letter, taken=True) for name, letter in OPERATIONS.items()},
        **{
            f"IGNORE{name}S": _operations(letter, taken=False)
            for name, letter in OPERATIONS.items()
        },
    }
)
# What the lines of a file obey before they are statements (``parameter_macros``).
IN_MACRO: Final = "it is not read within a macro"
OF_LINES: Final = frozenset({"OBEY", "INCLUDE", "MACRO", "MACROCHAR"})
OBEYED: Final = frozenset(_HANDLERS) | OF_LINES
# Why Replicat does not take them: parameters of Extract alone, as far as Replicat has no row of the same name.
OF_EXTRACT: Final = MappingProxyType(
    dict.fromkeys((*_HANDLERS, *CLAUSES, *NOTED, *REFUSED, *REASONS), "it belongs to Extract")
)
