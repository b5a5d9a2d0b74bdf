"""Read Extract parameter files: apply supported parameters, report those without effect, and raise errors for the others.

A file is split into statements (``definitions.parameter_files``), and each statement is looked up
by its keyword in ``_HANDLERS``. Tables here and in ``unsupported_of_extract`` have a row for each
parameter, each option of TABLE, and each option of EXTTRAIL, EXTFILE, RMTTRAIL and RMTFILE: what it
sets, or why it is not supported. An unsupported parameter that would change the captured data is an
error. If unsupported parameters are to be ignored, it is listed instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trailgate.definitions.parameter_files import (
    ParameterStatement,
    StatementClause,
    handle_statements,
    read_environment_variable,
    read_table_pattern,
    split_list,
    unquote,
)
from trailgate.definitions.parameter_macros import ReadFile
from trailgate.errors import OptionError, Where, did_you_mean, nearest_name
from trailgate.expressions.capture_rules import (
    ALL,
    CaptureRules,
    SelectCondition,
    TableRule,
    UserToken,
)
from trailgate.expressions.parser import parse_condition, parse_value
from trailgate.expressions.unsupported_of_extract import (
    NOTED,
    REASONS,
    REFUSED,
    TABLE_NOTED,
    TRANSACTION_LOG,
)
from trailgate.expressions.unsupported_parameters import (
    OF_REPLICAT,
    UNKNOWN_OPTION,
    ParameterRemark,
    ParameterRemarks,
    foreign_reason,
    unsupported_parameters_error,
)
from trailgate.expressions.values import GetenvValues
from trailgate.model.table_names import add_catalog, split_table_name

# The word in GETINSERTS and the like, and the letter of the operation.
OPERATIONS: Final = {"INSERT": "I", "UPDATE": "U", "DELETE": "D", "TRUNCATE": "T"}
# A column name, in double quotes or not: ID, "My Column"
NAMES: Final = re.compile(r"\"(?:[^\"]|\"\")+\"|[^\s,\"]+")
# An item of TOKENS: TKN-USER = @GETENV ('TRANSACTION', 'USERNAME')
TOKEN: Final = re.compile(r"(\"[^\"]+\"|'[^']+'|[^\s=]+)\s*=\s*(.*)", re.DOTALL)
# A word of TRANLOGOPTIONS; text in parentheses, with others inside, or in quotes is one word.
_LOG_WORD: Final = re.compile(r"\([^()]*(?:\([^()]*\)[^()]*)*\)|\"[^\"]*\"|'[^']*'|[^\s,()\"']+")
# The start of FILTER (ON UPDATE, IGNORE DELETES, ...)
_LIMIT: Final = re.compile(r"(ON|IGNORE)\s+(INSERT|UPDATE|DELETE)S?", re.IGNORECASE)
MEGABYTE: Final = 1_000_000

# PARAMS (dirprm/jms.properties), with or without the parentheses
_PARAMS: Final = re.compile(r"PARAMS\b\s*(\(?)(.*)", re.IGNORECASE | re.DOTALL)

# Parameters that show what an Extract without VAM does.
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

# Parameters that ``parameter_macros`` obeys before lines become statements.
IN_MACRO: Final = "it is not supported inside a macro"
OF_LINES: Final = frozenset({"OBEY", "INCLUDE", "MACRO", "MACROCHAR"})


def _table(draft: _Draft, statement: ParameterStatement) -> None:
    """Parse a TABLE statement of an Extract file with its options."""
    # TABLE HR.EMP*, COLS (ID, NAME), FILTER (ON UPDATE, SALARY > 100), TOKENS (T = "x");
    pattern, rest = read_table_pattern(statement)
    pattern = add_catalog(draft.catalog, pattern)
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
        raise statement.error("COLS and COLSEXCEPT cannot be combined")
    draft.add("tables", rule)


def _not_obeyed_in_table(
    draft: _Draft, statement: ParameterStatement, clause: StatementClause
) -> None:
    if clause.name in TABLE_NOTED:
        draft.note(statement, clause.text, TABLE_NOTED[clause.name])
        return
    reason = REASONS.get(clause.name) or foreign_reason(clause.name, OF_REPLICAT)
    if not reason:
        near = did_you_mean(clause.name, (*CLAUSES, *REASONS, *TABLE_NOTED))
        reason = f"{UNKNOWN_OPTION}. {near}".strip()
    draft.refuse(statement, clause.text, reason)


def column_names_option(
    member: str,
) -> Callable[[TableRule, StatementClause, ParameterStatement], TableRule]:
    """Return the parser of an option that lists columns, such as KEYCOLS, in a TABLE or MAP statement of an Extract or Replicat file.

    It stores them in the field ``member`` of the TableRule.
    """

    def read(rule: TableRule, clause: StatementClause, statement: ParameterStatement) -> TableRule:
        if getattr(rule, member):
            raise statement.error(f"{clause.name} is given twice")
        argument = clause.argument or ""
        names = tuple(unquote(name) for name in NAMES.findall(argument))
        if not names or NAMES.sub("", argument).strip(" \t,"):
            raise statement.error(f"expected column names, found {argument!r}")
        changes: Mapping[str, Any] = {member: names}
        return replace(rule, **changes)

    return read


def read_condition(
    rule: TableRule, clause: StatementClause, statement: ParameterStatement
) -> TableRule:
    """Parse a FILTER or WHERE of a TABLE or MAP statement, and add it to the statement's rule. FILTER can be limited to some operations."""
    # FILTER (ON UPDATE, IGNORE DELETE, SALARY > 100), WHERE (NAME = "A")
    limits, words = "", list(split_list(clause.argument or ""))
    ignored = ""
    while clause.name == "FILTER" and len(words) > 1 and (match := _LIMIT.fullmatch(words[0])):
        letter = OPERATIONS[match[2].upper()]
        limits += letter if match[1].upper() == "ON" else ""
        ignored += letter if match[1].upper() == "IGNORE" else ""
        words.pop(0)
    applied = "".join(one for one in limits or "IUD" if one not in ignored)
    expression = parse_condition(", ".join(words), ansi_quotes=statement.ansi_quotes)
    condition = SelectCondition(clause.name, expression, applied)
    return replace(rule, conditions=(*rule.conditions, condition))


def _tokens(rule: TableRule, clause: StatementClause, statement: ParameterStatement) -> TableRule:
    # TOKENS (TKN-HOST = @GETENV ('GGENVIRONMENT', 'HOSTNAME'), TKN-X = 'x')
    tokens = list(rule.tokens)
    for part in split_list(clause.argument or ""):
        match = TOKEN.fullmatch(part)
        if match is None:
            raise statement.error(f"expected NAME = value in TOKENS, found {part!r}")
        name = unquote(match[1])
        if name in {token.name for token in tokens}:
            raise statement.error(f"the token {name} is given twice")
        value = parse_value(match[2], ansi_quotes=statement.ansi_quotes)
        tokens.append(UserToken(name, value))
    return replace(rule, tokens=tuple(tokens))


# By the keyword of an option of TABLE.
CLAUSES: Final[
    Mapping[str, Callable[[TableRule, StatementClause, ParameterStatement], TableRule]]
] = MappingProxyType(
    {
        "KEYCOLS": column_names_option("key"),
        "COLS": column_names_option("columns"),
        "COLSEXCEPT": column_names_option("without"),
        "FILTER": read_condition,
        "WHERE": read_condition,
        "TOKENS": _tokens,
    }
)


class TrailOption(NamedTuple):
    """An option of EXTTRAIL and similar parameters, which ``pattern`` matches.

    ``convert`` converts its value to the value of the field ``member`` of ``ExtractParameters``. If
    the option is not supported, ``noted`` states why it has no effect, or ``refused`` why it is an
    error.
    """

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
    _row(r"MAXFILES\s+\d+", noted="the number of files is not limited"),
    _row(r"APPEND\b", noted="a run always adds to the trail"),
    _row(r"OBJECTDEFS\b", noted="files of release 12.2 and later always define their tables"),
    _row(r"PURGE\b", refused="earlier files are kept: remove them yourself"),
    _row(r"NO_OBJECTDEFS\b", refused="files of release 12.2 and later define their tables"),
)


@dataclass(frozen=True, slots=True)
class ExtractParameters:
    """The parameters of an Extract file, as far as a capture uses them.

    ``properties_path`` is the file that VAM names, and ``environment`` the variables of SETENV.
    ``unused`` are parameters that do not affect the data. ``ignored`` are unsupported parameters
    that would affect the data, skipped because of ``ignore_unsupported``.
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
    unused: tuple[ParameterRemark, ...] = ()
    ignored: tuple[ParameterRemark, ...] = ()

    @property
    def rules(self) -> CaptureRules:
        """The capture rules of the Extract file. Without a TABLE statement all tables are captured."""
        return CaptureRules(
            compress_updates=self.compress_updates,
            update_befores=self.update_befores,
            compress_deletes=self.compress_deletes,
            tables=self.tables or (ALL,),
            excluded=self.excluded,
            users=self.users,
            transactions=self.transactions,
            environment=GetenvValues(group=self.group, variables=self.environment),
        )


@dataclass(slots=True)
class _Draft(ParameterRemarks):
    """The parameters of an Extract file that have been read so far.

    ``not_taken`` are the letters of the operations that TABLE currently ignores, and ``catalog`` is
    the one of SOURCECATALOG.
    """

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
    """Parse an Extract parameter file (capture properties §10).

    Raises OptionError with source and line.

    ``read`` returns the text of a file that OBEY or INCLUDE names. An unsupported parameter that
    would change which data are written, or how, is an error unless ``ignore_unsupported`` is set.
    """
    draft = _Draft()
    try:
        handle_statements(text, read, draft, _HANDLERS, _not_obeyed)
        _check(draft)
        if draft.refused and not ignore_unsupported:
            raise unsupported_parameters_error(
                draft.refused, "It would change what is captured", "capture"
            )
    except OptionError as error:
        raise error.with_place(source=source or None) from None
    return replace(draft.parameters, unused=tuple(draft.unused), ignored=tuple(draft.refused))


def _check(draft: _Draft) -> None:
    parameters = draft.parameters
    if not parameters.group:
        raise OptionError("no EXTRACT parameter", hint="A file begins with EXTRACT group")
    if parameters.properties_path:
        return
    named = {one.text.split()[0].upper(): one for one in (*draft.unused, *draft.refused)}
    for name, what in _OTHER_EXTRACTS.items():
        if name in named:
            problem = f"{named[name].text} belongs to an Extract that {what}, but this one captures messages"
            hint = "Name the messages' properties by VAM library, PARAMS properties-file. To apply or read a trail, use trailgate apply or trailgate show"
            raise OptionError(problem, where=Where(line=named[name].line, field=name), hint=hint)
    raise OptionError("no VAM parameter", hint="Write VAM library, PARAMS properties-file")


def _once(statement: ParameterStatement, earlier: str | None, hint: str = "") -> None:
    """Raise OptionError if a parameter occurs twice. ``earlier`` is its first value, if any."""
    if earlier:
        problem = f"{statement.keyword} is given twice"
        raise statement.error(problem, hint or f"The first is {earlier}")


def _value(
    member: str, what: str, *, several: bool = False
) -> Callable[[_Draft, ParameterStatement], None]:
    """Return a handler for a parameter of Extract that has one value, such as SOURCEDEFS.

    It stores the value in the field ``member`` of ``ExtractParameters``. ``what`` describes the
    value in errors. With ``several``, the parameter may be repeated, and its values are collected.
    """

    def apply(draft: _Draft, statement: ParameterStatement) -> None:
        if not several:
            _once(statement, getattr(draft.parameters, member))
        word, rest = statement.first_word(what)
        value = unquote(word)
        if not value:
            raise statement.error(f"expected {what}, found {word}")
        (draft.add(member, value) if several else draft.set(**{member: value}))
        draft.refuse(statement, rest)

    return apply


def _vam(draft: _Draft, statement: ParameterStatement) -> None:
    """Parse VAM: it contains the path of the properties file."""
    # VAM libggjava_vam.so, PARAMS (dirprm/jms.properties)
    _once(statement, draft.parameters.properties_path)
    _, after = statement.first_word("a library")
    match = _PARAMS.match(after)
    if match is None:
        # OGG-00172: "no PARAMS section"
        raise statement.error("expected PARAMS and a properties file after the library")
    opened, items = match.groups()
    if opened:
        items, closed, _ = items.partition(")")
        if not closed:
            raise statement.error("no closing parenthesis after PARAMS")
    path, rest = statement.first_word("a properties file in PARAMS", items.strip())
    if not unquote(path):
        raise statement.error("expected a properties file in PARAMS")
    draft.set(properties_path=unquote(path))
    draft.refuse(statement, rest, "only the first item of PARAMS is used")


def _trail(draft: _Draft, statement: ParameterStatement) -> None:
    """Parse EXTTRAIL, EXTFILE, RMTTRAIL or RMTFILE. The trail is always written on this machine."""
    # EXTTRAIL dirdat/ot, FORMAT RELEASE 12.3, MEGABYTES 500
    hint = "A run writes one trail: use a separate parameter file for each"
    _once(statement, draft.parameters.trail, hint)
    path, rest = statement.first_word("a trail")
    draft.set(trail=unquote(path))
    while rest := rest.strip(" \t,"):
        matches = ((option, option.pattern.match(rest)) for option in OPTIONS)
        option, match = next(((o, match) for o, match in matches if match), (None, None))
        if option is None or match is None:
            draft.refuse(statement, rest, f"unknown option of {statement.keyword}")
            break
        if option.member:
            draft.set(**{option.member: option.convert(match[1])})
        elif option.noted:
            draft.note(statement, match[0], option.noted)
        else:
            draft.refuse(statement, match[0], option.refused)
        rest = rest[match.end() :]
    if statement.keyword.startswith("RMT"):
        draft.note(statement, statement.text, "the trail is written on this machine")
    if statement.keyword.endswith("FILE"):
        draft.note(statement, statement.text, "its files are numbered, like those of a trail")


def _tableexclude(draft: _Draft, statement: ParameterStatement) -> None:
    pattern, rest = read_table_pattern(statement)
    draft.add("excluded", add_catalog(draft.catalog, pattern))
    draft.refuse(statement, rest)


def _exclude_all_of(levels: int) -> Callable[[_Draft, ParameterStatement], None]:
    """Return a handler that excludes all tables of a schema (``levels`` 1) or catalog (2)."""

    def apply(draft: _Draft, statement: ParameterStatement) -> None:
        name, rest = statement.first_word("a name")
        # SCHEMAEXCLUDE HR becomes HR.*, CATALOGEXCLUDE PDB becomes PDB.*.*
        more = ".*" * (3 - len(split_table_name(name)) if levels == 2 else 1)
        draft.add("excluded", name + more)
        draft.refuse(statement, rest)

    return apply


def _sourcecatalog(draft: _Draft, statement: ParameterStatement) -> None:
    """Parse SOURCECATALOG: it sets the catalog of later tables whose names have only two parts."""
    draft.catalog, rest = statement.first_word("a catalog")
    draft.refuse(statement, rest)


def _obeyed_already(_: _Draft, __: ParameterStatement) -> None:
    """Do nothing: the parameter was already handled while the file was split into statements."""


def _operations(letter: str, *, taken: bool) -> Callable[[_Draft, ParameterStatement], None]:
    """Return a handler that makes later TABLE statements include or ignore operations of the type ``letter``."""

    def apply(draft: _Draft, statement: ParameterStatement) -> None:
        (draft.not_taken.discard if taken else draft.not_taken.add)(letter)
        draft.refuse(statement, statement.rest)

    return apply


def _switch(name: str, value: bool) -> Callable[[_Draft, ParameterStatement], None]:
    """Return a handler for a switch such as COMPRESSUPDATES, which applies to all tables.

    In GoldenGate it would only apply to the TABLE statements after it, so changing it after a TABLE
    statement is an error.
    """

    def apply(draft: _Draft, statement: ParameterStatement) -> None:
        if draft.parameters.tables and getattr(draft.parameters, name) != value:
            line = draft.parameters.tables[0].line
            problem = f"{statement.keyword} would not apply to the TABLE before it, in line {line}"
            raise statement.error(
                problem, "Write it before the first TABLE: it applies to all here"
            )
        draft.set(**{name: value})
        draft.refuse(statement, statement.rest)

    return apply


def _word(name: str, words: Mapping[str, str]) -> Callable[[_Draft, ParameterStatement], None]:
    """Return a handler for a parameter of Extract whose value is one of ``words``.

    ``words`` maps each word to the value of the field ``name`` of ``ExtractParameters``.
    """

    def apply(draft: _Draft, statement: ParameterStatement) -> None:
        word, rest = statement.first_word(f"one of {', '.join(words)}")
        if word.upper() not in words:
            raise statement.error(f"expected one of {', '.join(words)}, found {word}")
        draft.set(**{name: words[word.upper()]})
        draft.refuse(statement, rest)

    return apply


def _tranlogoptions(draft: _Draft, statement: ParameterStatement) -> None:
    """Parse TRANLOGOPTIONS: each option is a word, with values up to the next option."""
    outside = _LOG_WORD.sub("", statement.rest).replace(",", "").strip()
    if outside:
        raise statement.error(f"{outside[0]} has no counterpart in the options of TRANLOGOPTIONS")
    if not _LOG_WORD.search(statement.rest):
        raise statement.error("expected an option after TRANLOGOPTIONS")
    for word, values in _log_options(statement.rest):
        text = f"TRANLOGOPTIONS {' '.join((word, *values))}"
        row = TRANSACTION_LOG.get(word.upper())
        if row is None:
            near = did_you_mean(word, TRANSACTION_LOG)
            draft.refuse(statement, text, f"{UNKNOWN_OPTION}. {near}".strip())
        elif row.member:
            if len(values) != 1:
                raise statement.error(f"expected one value of {word}, found {' '.join(values)!r}")
            value = unquote(values[0])
            if not value or value.startswith("("):
                raise statement.error(f"expected a name after {word}, found {values[0]}")
            draft.add(row.member, value)
        elif row.noted:
            draft.note(statement, text, row.noted)
        else:
            draft.refuse(statement, text, row.refused)


def _log_options(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the options of TRANLOGOPTIONS with their values. Text in parentheses is one value."""
    # TRANLOGOPTIONS EXCLUDEUSER gg EXCLUDETRANS (a b): an option begins at each word of the table, and
    # at the first word, which may be unknown.
    words = _LOG_WORD.findall(text)
    option_indexes = [
        at for at, word in enumerate(words) if not at or word.upper() in TRANSACTION_LOG
    ]
    for begin, end in pairwise([*option_indexes, len(words)]):
        yield words[begin], words[begin + 1 : end]


def _setenv(draft: _Draft, statement: ParameterStatement) -> None:
    draft.add("environment", read_environment_variable(statement))
    draft.note(statement, statement.text, "only @GETENV ('OSVARIABLE', ...) reads it")


def _recovery(draft: _Draft, statement: ParameterStatement) -> None:
    word, rest = statement.first_word("APPENDMODE or OVERWRITEMODE")
    if word.upper() not in ("APPENDMODE", "OVERWRITEMODE"):
        raise statement.error(f"expected APPENDMODE or OVERWRITEMODE, found {word}")
    reason = "a run only publishes complete files, so there is nothing to overwrite or continue"
    draft.note(statement, f"{statement.keyword} {word}", reason)
    draft.refuse(statement, rest)


def _not_obeyed(draft: _Draft, statement: ParameterStatement) -> None:
    """Add a remark on a parameter of Extract without a handler.

    It is ``unused`` if the parameter does not affect the data, else ``refused``.
    """
    text = statement.text.rstrip("; \t")
    if statement.keyword in NOTED:
        draft.note(statement, text, NOTED[statement.keyword])
        return
    reason = REFUSED.get(statement.keyword) or foreign_reason(statement.keyword, OF_REPLICAT)
    if statement.keyword in OF_LINES:
        reason = IN_MACRO
    if not reason:
        near = nearest_name(statement.keyword, (*_HANDLERS, *NOTED, *REFUSED))
        reason = "unknown parameter" + (f"; did you mean {near}?" if near else "")
    draft.refuse(statement, text, reason)


# By the keyword that begins a statement.
_HANDLERS: Final[Mapping[str, Callable[[_Draft, ParameterStatement], None]]] = MappingProxyType(
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
OBEYED: Final = frozenset(_HANDLERS) | OF_LINES
# The reason why Replicat refuses parameters of Extract, unless Replicat's own tables have the name.
OF_EXTRACT: Final = MappingProxyType(
    dict.fromkeys((*_HANDLERS, *CLAUSES, *NOTED, *REFUSED, *REASONS), "it belongs to Extract")
)
