"""Parse Replicat parameter files.

The text is split into statements, and each statement is looked up by its first word: in
``_HANDLERS`` if the parameter is supported, or else in the tables of ``unsupported_of_replicat``, which
give the reason why it is not. Options of MAP are looked up in ``_CLAUSES`` in the same way. An
unsupported parameter that would change the data is an error; with ``ignore_unsupported`` it is only
listed.

Parameters such as IGNOREDELETES, HANDLECOLLISIONS and INSERTALLRECORDS are toggles. As in
GoldenGate, they apply to the MAP statements after them, and an option of a MAP statement overrides
them:

    IGNOREDELETES
    MAP HR.EMP, TARGET HR.EMP;               -- without deletes
    MAP HR.DEPT, TARGET HR.DEPT, GETDELETES; -- with deletes
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.operation_errors import DISCARD_TRANSACTION, IGNORE, NUMBERS, STOP
from trailgate.apply.replicat.unsupported_of_replicat import MAP_NOTED, MAP_REFUSED, NOTED, REFUSED
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
from trailgate.errors import OptionError, nearest_name
from trailgate.expressions.capture_rules import TableRule
from trailgate.expressions.extract_files import (
    IN_MACRO,
    OF_EXTRACT,
    OF_LINES,
    OPERATIONS,
    column_names_option,
    read_condition,
)
from trailgate.expressions.parser import parse_value
from trailgate.expressions.syntax import Expression
from trailgate.expressions.unsupported_parameters import (
    ParameterRemark,
    ParameterRemarks,
    foreign_reason,
    make_remark,
    unsupported_parameters_error,
)
from trailgate.expressions.values import GetenvValues
from trailgate.model.table_names import add_catalog, split_table_name

ALTERED: Final = "It would change what is applied"
NO_DDL: Final = (
    "tables follow the definitions in the trail (--schema-changes), and a DDL record is an error"
)
APPEND: Final = "append"  # the mode of INSERTALLRECORDS
# A response of REPERROR, and the value of --on-error that does the same.
POLICIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ABEND": STOP,
        "DISCARD": "discard",
        "IGNORE": IGNORE,
        "TRANSDISCARD": DISCARD_TRANSACTION,
    }
)
NO_EXCEPTIONS: Final = "there is no exceptions table"
NO_RETRIES: Final = "operations are not retried: fix the cause and start the run again"
# Responses of REPERROR that are refused, and the reason.
UNANSWERED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "EXCEPTION": NO_EXCEPTIONS,
        "TRANSEXCEPTION": NO_EXCEPTIONS,
        "RETRYOP": NO_RETRIES,
        "TRANSABORT": NO_RETRIES,
    }
)
# Parameters that change operations: from the first letter to the second one.
TYPES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "INSERTUPDATES": ("U", "I"),
        "INSERTDELETES": ("D", "I"),
        "UPDATEDELETES": ("D", "U"),
    }
)
# Parameters about collisions, and the value of --on-collision that does the same.
COLLISIONS: Final[Mapping[str, CollisionPolicy]] = MappingProxyType(
    {
        "HANDLECOLLISIONS": CollisionPolicy.OVERLAY,
        "INSERTMISSINGUPDATES": CollisionPolicy.INSERT_MISSING,
    }
)
# An item of COLMAP: "Full Name" = @STRCAT (FIRST, LAST)
_ASSIGNMENT: Final = re.compile(r"(\"[^\"]+\"|[^\s=]+)\s*=\s*(.+)", re.DOTALL)
# The word between the two tables of MAP HR.EMP, TARGET DW.EMP
_TARGET: Final = re.compile(r"[\s,]*TARGET\b\s*", re.IGNORECASE)
# The rest of REPERROR (1403, DISCARD): the error, the response, and more, such as MAXRETRIES 3
_ERROR: Final = re.compile(r"\(?\s*(-?\w+)\s*,\s*(\w+)\s*(.*?)\)?\s*", re.DOTALL)
DISCARD_OPTIONS: Final = frozenset({"APPEND", "PURGE", "MAXBYTES", "MEGABYTES", "MAXLINES"})


@dataclass(frozen=True, slots=True)
class MapStatement:
    """One MAP statement of a Replicat file: a source pattern and its conditions (``rule``), a target, and changes to make.

    - ``columns``: the columns of COLMAP, by target name
    - ``defaults``: whether columns with equal names are mapped too (USEDEFAULTS)
    - ``types``: pairs of operation letters; for example ``("U", "I")`` turns updates into inserts
    """

    rule: TableRule
    target: str
    columns: tuple[tuple[str, Expression], ...] = ()
    defaults: bool = True
    types: tuple[tuple[str, str], ...] = ()
    collisions: CollisionPolicy | None = None
    mode: str | None = None  # the mode of its target, or None for the mode of the run


@dataclass(frozen=True, slots=True)
class ReplicatParameters:
    """The parsed parameters of a Replicat file.

    - ``excluded``: the patterns of MAPEXCLUDE
    - ``on_error``, ``responses``: the default response of REPERROR, and those by Oracle error
      number
    - ``unused``: parameters that do not affect the data
    - ``ignored``: unsupported parameters that would change the data, skipped because of
      ``ignore_unsupported``
    - ``mode``: the mode of all MAP statements, if they have the same
    - ``ddl``: the parameter that requests the execution of DDL
    """

    group: str | None = None
    maps: tuple[MapStatement, ...] = ()
    excluded: tuple[str, ...] = ()
    sourcedefs: str | None = None
    discards: str | None = None
    on_error: str | None = None
    responses: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    mode: str | None = None
    variables: tuple[tuple[str, str], ...] = ()  # of SETENV
    unused: tuple[ParameterRemark, ...] = ()
    ignored: tuple[ParameterRemark, ...] = ()
    ddl: ParameterRemark | None = None
    source: str = ""  # the file, for errors

    @property
    def environment(self) -> GetenvValues:
        """The values of ``@GETENV`` that the file determines: the group and SETENV variables.

        The names of the host and the user are left empty.
        """
        return GetenvValues(self.group or "", variables=self.variables, group_type="REPLICAT")

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of all MAP statements, for checks."""
        return tuple(
            value
            for one in self.maps
            for value in (*one.rule.expressions, *(value for _, value in one.columns))
        )


@dataclass(slots=True)
class _Draft(ParameterRemarks):
    """The parameters of a Replicat file parsed so far, and the toggles that apply to later MAP statements.

    ``not_taken`` contains the letters of the operations that a toggle ignores, such as "D" after
    IGNOREDELETES.
    """

    parameters: ReplicatParameters = ReplicatParameters()
    not_taken: set[str] = field(default_factory=set)
    types: dict[str, tuple[str, str]] = field(default_factory=dict)
    collisions: CollisionPolicy | None = None
    mode: str | None = None
    catalog: str = ""
    before_rows: ParameterStatement | None = None  # GETUPDATEBEFORES
    duplicates: ParameterStatement | None = None  # ALLOWDUPTARGETMAP
    errors: dict[str, tuple[ParameterStatement, str]] = field(default_factory=dict)  # of REPERROR

    def set_once(self, statement: ParameterStatement, **members: Any) -> None:
        """Set fields of the Replicat parameters.

        Raises OptionError if the parameter file has already set one of them.
        """
        for name in members:
            if getattr(self.parameters, name) is not None:
                raise statement.error(f"{statement.keyword} is given twice")
        self.parameters = replace(self.parameters, **members)


def parse_replicat(
    text: str,
    source: str = "",
    *,
    read: ReadFile | None = None,
    ignore_unsupported: bool = False,
) -> ReplicatParameters:
    """Parse a Replicat parameter file. Raises OptionError with the file and line.

    ``read`` returns the text of a file that OBEY or INCLUDE names. An unsupported parameter that
    would change the data is an error, unless ``ignore_unsupported`` is set.
    """
    draft = _Draft()
    try:
        handle_statements(text, read, draft, _HANDLERS, _not_obeyed)
        _check_before_rows(draft)
        _check_duplicates(draft)
        if draft.refused and not ignore_unsupported:
            raise unsupported_parameters_error(draft.refused, ALTERED, "apply")
        parameters = _with_responses(draft)
    except OptionError as error:
        raise error.with_place(source=source or None) from None
    modes = {one.mode for one in parameters.maps}
    return replace(
        parameters,
        source=source,
        mode=modes.pop() if len(modes) == 1 else None,
        ignored=tuple(draft.refused),
    )


def _check_before_rows(draft: _Draft) -> None:
    """Report GETUPDATEBEFORES, as an error if a MAP statement has the mode INSERTALLRECORDS.

    The parameter writes the row before an update as a separate record, which matters only in this
    mode.
    """
    statement = draft.before_rows
    if statement is None:
        return
    if any(one.mode == APPEND for one in draft.parameters.maps):
        reason = "with INSERTALLRECORDS an update would become two rows: COLMAP can put both images into one, as in OLD_NAME = BEFORE.NAME"
        draft.refuse(statement, statement.text, reason)
    else:
        draft.note(statement, statement.text, "BEFORE.COLUMN is known if the trail contains it")


def _check_duplicates(draft: _Draft) -> None:
    """Report ALLOWDUPTARGETMAP, as an error if two statements have the same source and target."""
    statement = draft.duplicates
    if statement is None:
        return
    pairs = [(one.rule.pattern.casefold(), one.target.casefold()) for one in draft.parameters.maps]
    if len(set(pairs)) < len(pairs):
        reason = "only the first matching MAP of an operation writes it to its target"
        draft.refuse(statement, statement.text, reason)
    else:
        draft.note(
            statement, statement.text, "no two MAP statements have the same source and target"
        )


def _nothing_more(draft: _Draft, statement: ParameterStatement, rest: str) -> None:
    """Report text after a complete Replicat parameter, such as THREADS (1-3), as an error."""
    rest = rest.strip(" \t,;")
    if not rest:
        return
    reason = "unknown option"
    if re.match(r"THREADS?\b", rest, re.IGNORECASE):
        reason = "it would apply to some threads only"
    elif rest.upper() == "OVERRIDE":
        reason = "the precedence of definitions cannot be chosen"
    draft.refuse(statement, f"{statement.keyword} {rest}", reason)


def _map(draft: _Draft, statement: ParameterStatement) -> None:
    """Parse a MAP statement of a Replicat file with its options."""
    # MAP HR.EMP*, TARGET DW.*, COLMAP (USEDEFAULTS, ID = EMPNO), FILTER (@LEN (NAME) > 0);
    pattern, rest = read_table_pattern(statement)
    pattern = add_catalog(draft.catalog, pattern)
    keyword = _TARGET.match(rest)
    if keyword is None:
        raise statement.error("expected TARGET and a table name after the source's")
    target, rest = statement.first_word("a table name after TARGET", rest[keyword.end() :])
    if not split_table_name(target) or "?" in target:
        raise statement.error(f"expected SCHEMA.TABLE after TARGET, found {target}")
    ignored = "".join(one for one in OPERATIONS.values() if one in draft.not_taken)
    mapped = MapStatement(
        TableRule(pattern, ignored, line=statement.line, source=statement.source),
        target,
        types=tuple(draft.types.values()),
        collisions=draft.collisions,
        mode=draft.mode,
    )
    of_exceptions = False
    for clause in statement.clauses(rest):
        read = _CLAUSES.get(clause.name)
        if read is None:
            of_exceptions |= clause.name == "EXCEPTIONSONLY"
            _not_obeyed_in_map(draft, statement, clause)
            continue
        try:
            mapped = read(mapped, clause, statement)
        except OptionError as error:
            raise statement.place(error, clause.name) from None
    if of_exceptions:  # a MAP for failed operations only; without the option it would map all
        return
    draft.parameters = replace(draft.parameters, maps=(*draft.parameters.maps, mapped))


def _not_obeyed_in_map(
    draft: _Draft, statement: ParameterStatement, clause: StatementClause
) -> None:
    if clause.name in MAP_NOTED:
        draft.note(statement, clause.text, MAP_NOTED[clause.name])
        return
    reason = MAP_REFUSED.get(clause.name) or foreign_reason(clause.name, {})
    if not reason:
        near = nearest_name(clause.name, (*_CLAUSES, *MAP_NOTED, *MAP_REFUSED))
        reason = "unknown parameter" + (f"; did you mean {near}?" if near else "")
    draft.refuse(statement, clause.text, reason)


def _of_rule(
    read: Callable[[TableRule, StatementClause, ParameterStatement], TableRule],
) -> Callable[[MapStatement, StatementClause, ParameterStatement], MapStatement]:
    """Return a parser for a MAP option that is also an option of Extract's TABLE."""

    def apply(
        mapped: MapStatement, clause: StatementClause, statement: ParameterStatement
    ) -> MapStatement:
        if not clause.argument:
            raise statement.error(f"expected parentheses after {clause.name}")
        return replace(mapped, rule=read(mapped.rule, clause, statement))

    return apply


def _colmap(
    mapped: MapStatement, clause: StatementClause, statement: ParameterStatement
) -> MapStatement:
    # COLMAP (USEDEFAULTS, NAME = @STRCAT (FIRST, ' ', LAST), "Id" = ID)
    columns: dict[str, Expression] = {}
    defaults = False
    for part in split_list(clause.argument or ""):
        if part.upper() == "USEDEFAULTS":
            defaults = True
            continue
        assigned = _ASSIGNMENT.fullmatch(part)
        if assigned is None:
            raise statement.error(f"expected COLUMN = value in COLMAP, found {part!r}")
        name = unquote(assigned[1])
        if name.casefold() in {one.casefold() for one in columns}:
            raise statement.error(f"COLMAP sets the column {name} twice")
        columns[name] = parse_value(assigned[2], ansi_quotes=statement.ansi_quotes)
    return replace(mapped, columns=tuple(columns.items()), defaults=defaults)


def _mapped_type(
    name: str, *, taken: bool
) -> Callable[[MapStatement, StatementClause, ParameterStatement], MapStatement]:
    def apply(mapped: MapStatement, _: StatementClause, __: ParameterStatement) -> MapStatement:
        kept = [one for one in mapped.types if one != TYPES[name]]
        return replace(mapped, types=(*kept, TYPES[name]) if taken else tuple(kept))

    return apply


def _mapped_mode(
    mode: str | None,
) -> Callable[[MapStatement, StatementClause, ParameterStatement], MapStatement]:
    def apply(mapped: MapStatement, _: StatementClause, __: ParameterStatement) -> MapStatement:
        return replace(mapped, mode=mode)

    return apply


def _mapped_collisions(
    policy: CollisionPolicy, *, taken: bool
) -> Callable[[MapStatement, StatementClause, ParameterStatement], MapStatement]:
    def apply(mapped: MapStatement, _: StatementClause, __: ParameterStatement) -> MapStatement:
        if taken:
            return replace(mapped, collisions=policy)
        stated = mapped.collisions in (policy, None)
        return replace(mapped, collisions=CollisionPolicy.STOP if stated else mapped.collisions)

    return apply


def _mapped_operations(
    letter: str, *, taken: bool
) -> Callable[[MapStatement, StatementClause, ParameterStatement], MapStatement]:
    def apply(mapped: MapStatement, _: StatementClause, __: ParameterStatement) -> MapStatement:
        # GETDELETES removes the letter D from the ignored ones, IGNOREDELETES adds it.
        others = mapped.rule.ignored.replace(letter, "")
        return replace(mapped, rule=replace(mapped.rule, ignored=others + letter * (not taken)))

    return apply


def _toggle_operations(letter: str, *, taken: bool) -> Callable[[_Draft, ParameterStatement], None]:
    def apply(draft: _Draft, statement: ParameterStatement) -> None:
        (draft.not_taken.discard if taken else draft.not_taken.add)(letter)
        _nothing_more(draft, statement, statement.rest)

    return apply


def _toggle_type(name: str, *, taken: bool) -> Callable[[_Draft, ParameterStatement], None]:
    def apply(draft: _Draft, statement: ParameterStatement) -> None:
        if taken:
            draft.types[name] = TYPES[name]
        else:
            draft.types.pop(name, None)
        _nothing_more(draft, statement, statement.rest)

    return apply


def _toggle_collisions(
    policy: CollisionPolicy, *, taken: bool
) -> Callable[[_Draft, ParameterStatement], None]:
    def apply(draft: _Draft, statement: ParameterStatement) -> None:
        if taken:
            draft.collisions = policy
        elif draft.collisions is policy:
            draft.collisions = None
        _nothing_more(draft, statement, statement.rest)

    return apply


def _value(member: str, what: str) -> Callable[[_Draft, ParameterStatement], None]:
    """Return a handler for a Replicat parameter with one value, which it stores in the field ``member``.

    ``what`` describes the value in errors.
    """

    def apply(draft: _Draft, statement: ParameterStatement) -> None:
        value, rest = statement.first_word(what)
        draft.set_once(statement, **{member: unquote(value)})
        _nothing_more(draft, statement, rest)

    return apply


def _exclude(draft: _Draft, statement: ParameterStatement) -> None:
    pattern, rest = read_table_pattern(statement)
    _nothing_more(draft, statement, rest)
    excluded = (*draft.parameters.excluded, add_catalog(draft.catalog, pattern))
    draft.parameters = replace(draft.parameters, excluded=excluded)


def _discardfile(draft: _Draft, statement: ParameterStatement) -> None:
    # DISCARDFILE ./dirrpt/r1.dsc, APPEND, MEGABYTES 100
    path, rest = statement.first_word("a file")
    draft.set_once(statement, discards=unquote(path))
    for word in re.split(r"[\s,]+", rest.strip(" ,;")):
        if word and word.upper() not in DISCARD_OPTIONS and not word.isdigit():
            raise statement.error(f"{word!r} is not supported: unknown option")


def _reperror(draft: _Draft, statement: ParameterStatement) -> None:
    """Parse REPERROR, such as ``REPERROR (1403, DISCARD)``, and record its response to an Oracle error.

    ``_with_responses`` combines the responses after the whole file is parsed.
    """
    # REPERROR (1403, DISCARD), REPERROR (DEFAULT, ABEND), REPERROR RESET
    if draft.parameters.maps:
        hint = "Write it before the first MAP: here it applies to all"
        raise statement.error("REPERROR follows a MAP, and would not apply to it", hint)
    if statement.rest.strip("() ").upper() == "RESET":
        draft.errors.clear()
        return
    match = _ERROR.fullmatch(statement.rest)
    if match is None:
        problem = "expected (DEFAULT, ABEND) or another response after REPERROR"
        raise statement.error(problem)
    which, response, more = match[1].upper().lstrip("0"), match[2].upper(), match[3]
    if not (which in ("DEFAULT", "DEFAULT2") or which.lstrip("-").isdecimal()):
        raise statement.error(f"expected DEFAULT or the number of an error, found {match[1]}")
    later = which == "DEFAULT" and response == "EXCEPTION"  # DEFAULT2 may replace it
    if (response not in POLICIES and not later) or more.strip(" ,"):
        reason = UNANSWERED.get(response, "")
        problem = f"the response {response} {more}".rstrip()
        raise statement.error(
            f"{problem} is not supported{reason and ': '}{reason}",
            f"Responses are {', '.join(POLICIES)}",
        )
    if which in draft.errors:
        raise statement.error(f"the response to {which} is given twice")
    draft.errors[which] = statement, response


def _with_responses(draft: _Draft) -> ReplicatParameters:
    """Return the parameters of a Replicat file with all responses of REPERROR.

    Raises OptionError for an error number whose response would differ from Replicat's.
    """
    if not draft.parameters.maps:
        raise OptionError("no MAP statement", hint="For example, MAP HR.*, TARGET HR.*;")
    by_error, unused = dict(draft.errors), list(draft.unused)
    second = by_error.pop("DEFAULT2", None)
    if "DEFAULT" in by_error and by_error["DEFAULT"][1] == "EXCEPTION":
        # DEFAULT2 applies to tables without an exceptions MAP. These MAPs are refused here, so it
        # applies to all tables.
        if second is None:
            problem = f"the response EXCEPTION is not supported: {NO_EXCEPTIONS}"
            hint = "Add REPERROR (DEFAULT2, ...), which applies without one"
            raise by_error["DEFAULT"][0].error(problem, hint)
        by_error["DEFAULT"], second = second, None
    if second is not None:
        reason = "it applies only if the response to DEFAULT is EXCEPTION"
        unused.append(make_remark(second[0], second[0].text, reason))
    default = by_error.pop("DEFAULT", (None, "ABEND"))[1]
    responses: dict[int, str] = {}
    for text, (statement, response) in by_error.items():
        number = int(text)
        # The Oracle errors of a group cannot be distinguished here, so all must have one response.
        group = next((numbers for numbers in NUMBERS if number in numbers), None)
        if group is None and response == default:
            reason = "the response to all errors is the same"
            unused.append(make_remark(statement, statement.text, reason))
            continue
        if group is None:
            known = ", ".join(str(one) for numbers in NUMBERS for one in numbers)
            problem = f"REPERROR ({number}, {response}) is not supported: the error is not distinguished from others"
            raise statement.error(problem, f"Oracle errors that are: {known}")
        for other in group:
            others = by_error.get(str(other), (None, default))[1]
            if others != response:
                problem = f"REPERROR ({number}, {response}) is not supported: {number} and {other} are one error here, and the response to {other} is {others}"
                raise statement.error(problem, "Give both the same response")
        responses[number] = POLICIES[response]
    parameters = draft.parameters
    return replace(
        parameters,
        on_error=POLICIES[default] if draft.errors else None,
        responses=MappingProxyType(responses),
        unused=tuple(sorted(unused, key=lambda one: one.line)),
    )


def _toggle_mode(mode: str | None) -> Callable[[_Draft, ParameterStatement], None]:
    def apply(draft: _Draft, statement: ParameterStatement) -> None:
        draft.mode = mode
        _nothing_more(draft, statement, statement.rest)

    return apply


def _sourcecatalog(draft: _Draft, statement: ParameterStatement) -> None:
    """Parse SOURCECATALOG: set the catalog of the following MAP statements whose source names none."""
    draft.catalog, rest = statement.first_word("a catalog")
    _nothing_more(draft, statement, rest)


def _setenv(draft: _Draft, statement: ParameterStatement) -> None:
    variables = (*draft.parameters.variables, read_environment_variable(statement))
    draft.parameters = replace(draft.parameters, variables=variables)
    draft.note(statement, statement.text, "only @GETENV ('OSVARIABLE', ...) reads it")


def _getupdatebefores(draft: _Draft, statement: ParameterStatement) -> None:
    draft.before_rows = statement
    _nothing_more(draft, statement, statement.rest)


def _allowduptargetmap(draft: _Draft, statement: ParameterStatement) -> None:
    draft.duplicates = statement
    _nothing_more(draft, statement, statement.rest)


def _ddl(draft: _Draft, statement: ParameterStatement) -> None:
    """Report a DDL parameter, and remember it for the error message in case the trail contains a DDL record."""
    words = statement.rest.upper().split()
    if statement.keyword == "DDL" and words[:2] != ["EXCLUDE", "ALL"]:
        ddl = make_remark(statement, statement.text, NO_DDL)
        draft.parameters = replace(draft.parameters, ddl=ddl)
    draft.note(statement, statement.text, NO_DDL)


def _end(draft: _Draft, statement: ParameterStatement) -> None:
    if statement.rest.upper() == "RUNTIME":
        draft.note(statement, statement.text, "a run ends with the trail")
    else:
        reason = "a run ends with the trail, and cannot be stopped at a time"
        draft.refuse(statement, statement.text, reason)


def _charset(draft: _Draft, statement: ParameterStatement) -> None:
    if re.fullmatch(r"[\"']?UTF-?8[\"']?", statement.rest, re.IGNORECASE):
        draft.note(statement, statement.text, "parameter files are UTF-8")
    else:
        draft.refuse(statement, statement.text, "parameter files are UTF-8")


def _obeyed_already(_: _Draft, __: ParameterStatement) -> None:
    """Do nothing for USEANSISQLQUOTES, which was already handled when the file was split into statements."""


def _not_obeyed(draft: _Draft, statement: ParameterStatement) -> None:
    """Report an unsupported Replicat parameter: either it has no effect here, or it is an error."""
    name = statement.keyword
    if name in NOTED:
        draft.note(statement, statement.text, NOTED[name])
        return
    reason = REFUSED.get(name) or foreign_reason(name, OF_EXTRACT)
    if name in OF_LINES:
        reason = IN_MACRO
    if not reason:
        near = nearest_name(name, (*_HANDLERS, *NOTED, *REFUSED))
        reason = "unknown parameter" + (f"; did you mean {near}?" if near else "")
    draft.refuse(statement, statement.text, reason)


# By the keyword that begins a statement.
_HANDLERS: Final[Mapping[str, Callable[[_Draft, ParameterStatement], None]]] = MappingProxyType(
    {
        "REPLICAT": _value("group", "a group name"),
        "SOURCEDEFS": _value("sourcedefs", "a definitions file"),
        "MAP": _map,
        "MAPEXCLUDE": _exclude,
        "DISCARDFILE": _discardfile,
        "REPERROR": _reperror,
        "INSERTALLRECORDS": _toggle_mode(APPEND),
        "NOINSERTALLRECORDS": _toggle_mode(None),
        "SOURCECATALOG": _sourcecatalog,
        "SETENV": _setenv,
        "GETUPDATEBEFORES": _getupdatebefores,
        "ALLOWDUPTARGETMAP": _allowduptargetmap,
        "DDL": _ddl,
        "DDLOPTIONS": _ddl,
        "DDLERROR": _ddl,
        "END": _end,
        "CHARSET": _charset,
        "USEANSISQLQUOTES": _obeyed_already,
        "NOUSEANSISQLQUOTES": _obeyed_already,
        **{
            f"{word}{name}S": _toggle_operations(letter, taken=word == "GET")
            for name, letter in OPERATIONS.items()
            for word in ("GET", "IGNORE")
        },
        **{f"{no}{name}": _toggle_type(name, taken=not no) for name in TYPES for no in ("", "NO")},
        **{
            f"{no}{name}": _toggle_collisions(policy, taken=not no)
            for name, policy in COLLISIONS.items()
            for no in ("", "NO")
        },
    }
)
# By the keyword of an option of MAP.
_CLAUSES: Final[
    Mapping[str, Callable[[MapStatement, StatementClause, ParameterStatement], MapStatement]]
] = MappingProxyType(
    {
        "COLMAP": _colmap,
        "KEYCOLS": _of_rule(column_names_option("key")),
        "FILTER": _of_rule(read_condition),
        "WHERE": _of_rule(read_condition),
        "INSERTALLRECORDS": _mapped_mode(APPEND),
        "NOINSERTALLRECORDS": _mapped_mode(None),
        **{
            f"{word}{name}S": _mapped_operations(letter, taken=word == "GET")
            for name, letter in OPERATIONS.items()
            for word in ("GET", "IGNORE")
        },
        **{f"{no}{name}": _mapped_type(name, taken=not no) for name in TYPES for no in ("", "NO")},
        **{
            f"{no}{name}": _mapped_collisions(policy, taken=not no)
            for name, policy in COLLISIONS.items()
            for no in ("", "NO")
        },
    }
)
OBEYED: Final = frozenset(_HANDLERS) | OF_LINES
MAP_OBEYED: Final = frozenset(_CLAUSES) | {"TARGET"}
