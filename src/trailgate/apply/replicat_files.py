"""Replicat parameter files: what is obeyed, what changes nothing, and what is refused.

Each parameter and each option of a MAP statement is one row, which states what it sets, or why it is not obeyed. What would change the data and is not obeyed is an error.
Parameters that toggle (IGNOREDELETES, HANDLECOLLISIONS) hold for the MAP statements after them, as they do in GoldenGate; an option of a MAP statement wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from trailgate.apply.collisions import Collisions
from trailgate.apply.faults import DISCARD_TRANSACTION, IGNORE, NUMBERS, STOP
from trailgate.definitions.parameter_files import Clause, Statement, parts, statements, unquote
from trailgate.errors import OptionError, Where, nearest
from trailgate.expressions.extract_files import (
    OPERATIONS,
    Remark,
    by_reason,
    column_names,
    read_condition,
    table_pattern,
)
from trailgate.expressions.parser import parse_value
from trailgate.expressions.selection import TableRule
from trailgate.expressions.syntax import Expression
from trailgate.expressions.values import Environment
from trailgate.model.table_patterns import name_parts

NOTED: Final = by_reason(
    {
        "definitions state what the tables are": "ASSUMETARGETDEFS",
        "operations are always applied as net changes of a batch, in one commit": "BATCHSQL NOBATCHSQL GROUPTRANSOPS MAXTRANSOPS SPLIT_TRANS_RECS",
        "the target's address has what it needs": "DBOPTIONS USERID USERIDALIAS TARGETDB SOURCEDB",
        "the positions of all tables are kept in the target": "CHECKPOINTSECS CHECKPOINTTABLE",
        "splits of the trail are read by threads, and each table is written at once": "THREAD THREADOPTIONS MAP_PARALLELISM APPLY_PARALLELISM MIN_APPLY_PARALLELISM MAX_APPLY_PARALLELISM COMMIT_SERIALIZATION LOOK_AHEAD_TRANSACTIONS COORDINATED",
        "the run prints its own summary": "LIST NOLIST REPORT REPORTCOUNT REPORTROLLOVER STATOPTIONS TRACE TRACE2 SHOWSYNTAX NOSHOWSYNTAX DISCARDROLLOVER NODISCARDFILE",
        "--follow states whether the trail is followed": "EOFDELAY EOFDELAYCSECS",
        "operations are always applied as they are logged": "DYNAMICRESOLUTION NODYNAMICRESOLUTION WILDCARDRESOLVE ALLOWDUPTARGETMAP NOALLOWDUPTARGETMAP",
        "several key updates of one statement are always told apart": "HANDLETPKUPDATE NOHANDLETPKUPDATE",
        "it is always so": "USEANSISQLQUOTES APPLYNOOPUPDATES",
        "--to names the target": "TARGETDEFS",
    }
)
REFUSED: Final = by_reason(
    {
        "there is no database that would run it": "SQLEXEC",
        "there are no user exits": "CUSEREXIT EXITPARAM",
        "there is no exceptions table: --on-error discard keeps the operations": "EXCEPTIONSONLY MAPEXCEPTION",
        "conflicts between sites are not resolved": "RESOLVECONFLICT COMPARECOLS",
        "there are no events": "EVENTACTIONS",
        "definitions in the trail state what tables look like, and DDL is not carried out": "DDL DDLOPTIONS DDLERROR DDLSUBST",
        "write the lines that it stands for into this file": "INCLUDE MACRO OBEY",
        "--after-csn states where to begin": "BEGIN END HANDLECOLLISIONSUNTIL",
        "literals are in single quotes, names in double quotes": "NOUSEANSISQLQUOTES",
        "records are applied as they are": "REPLACEBADCHAR REPLACEBADNUM SPACESTONULL TRIMSPACES NOTRIMSPACES CHARSET COLCHARSET DECRYPTTRAIL",
        "it belongs to Extract: write MAP": "TABLE",
        "the whole trail is read": "PASSTHRU FILTERDUPS",
        "write it before the first MAP, and it holds for all": "REPERROR",
        "a delay would have to outlive the run": "DEFERAPPLYINTERVAL",
    }
)
ALTERED: Final = "Leaving it out would change the data that are applied"
POLICIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ABEND": STOP,
        "DISCARD": "discard",
        "IGNORE": IGNORE,
        "TRANSDISCARD": DISCARD_TRANSACTION,
    }
)
NO_EXCEPTIONS: Final = "there is no exceptions table"
NO_RETRIES: Final = "nothing is tried again: a run that stopped is started again"
UNANSWERED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "EXCEPTION": NO_EXCEPTIONS,
        "TRANSEXCEPTION": NO_EXCEPTIONS,
        "RETRYOP": NO_RETRIES,
        "TRANSABORT": NO_RETRIES,
    }
)
TYPES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "INSERTUPDATES": ("U", "I"),
        "INSERTDELETES": ("D", "I"),
        "UPDATEDELETES": ("D", "U"),
    }
)
COLLISIONS: Final[Mapping[str, Collisions]] = MappingProxyType(
    {
        "HANDLECOLLISIONS": Collisions.OVERLAY,
        "INSERTMISSINGUPDATES": Collisions.INSERT_MISSING,
    }
)
_ASSIGNMENT: Final = re.compile(r"(\"[^\"]+\"|[^\s=]+)\s*=\s*(.+)", re.DOTALL)
_TARGET: Final = re.compile(r"[\s,]*TARGET\b\s*", re.IGNORECASE)
_ERROR: Final = re.compile(r"\(?\s*(-?\w+)\s*,\s*(\w+)\s*(.*?)\)?\s*", re.DOTALL)
DISCARD_OPTIONS: Final = frozenset({"APPEND", "PURGE", "MAXBYTES", "MEGABYTES", "MAXLINES"})


@dataclass(frozen=True, slots=True)
class MapRule:
    """One MAP statement: the target's pattern, which operations it takes (``rule``), and what becomes of these.

    ``columns`` are those of COLMAP by their names in the target, ``defaults`` whether columns of one name are mapped too. ``types`` are the letters that operations get.
    """

    rule: TableRule
    target: str
    columns: tuple[tuple[str, Expression], ...] = ()
    defaults: bool = True
    types: tuple[tuple[str, str], ...] = ()
    collisions: Collisions | None = None


@dataclass(frozen=True, slots=True)
class ReplicatParameters:
    """The parameters of a file that have an effect here, and those that change nothing (``unused``)."""

    group: str | None = None
    maps: tuple[MapRule, ...] = ()
    excluded: tuple[str, ...] = ()
    sourcedefs: str | None = None
    discards: str | None = None
    on_error: str | None = None
    responses: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    mode: str | None = None
    variables: tuple[tuple[str, str], ...] = ()  # of SETENV
    unused: tuple[Remark, ...] = ()
    source: str = ""  # the file, for errors

    @property
    def environment(self) -> Environment:
        """Return what @GETENV gives, but for the items of a machine."""
        return Environment(self.group or "", variables=self.variables, group_type="REPLICAT")

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Return the expressions of all MAP statements."""
        return tuple(
            value
            for one in self.maps
            for value in (*one.rule.expressions, *(value for _, value in one.columns))
        )


@dataclass(slots=True)
class _Draft:
    """What is known so far, and what toggles state for the MAP statements that follow."""

    parameters: ReplicatParameters = ReplicatParameters()
    not_taken: set[str] = field(default_factory=set)
    types: dict[str, tuple[str, str]] = field(default_factory=dict)
    collisions: Collisions | None = None
    errors: dict[str, tuple[Statement, str]] = field(default_factory=dict)  # of REPERROR

    def set_once(self, statement: Statement, **members: Any) -> None:
        for name in members:
            if getattr(self.parameters, name) is not None:
                raise statement.error(f"{statement.keyword} is given twice")
        self.parameters = replace(self.parameters, **members)


def parse_replicat(text: str, source: str = "") -> ReplicatParameters:
    """Return the parameters of a Replicat parameter file; raises OptionError with source and line."""
    draft = _Draft()
    try:
        for statement in statements(text):
            handler = _HANDLERS.get(statement.keyword, _not_obeyed)
            handler(draft, statement)
    except OptionError as error:
        raise error.with_place(source=source or None) from None
    if not draft.parameters.maps:
        hint = "As in MAP HR.*, TARGET HR.*;"
        raise OptionError("no MAP statement", where=Where(source=source or None), hint=hint)
    try:
        return replace(_with_responses(draft), source=source)
    except OptionError as error:
        raise error.with_place(source=source or None) from None


def _nothing_more(statement: Statement, rest: str) -> None:
    if rest.strip(" \t,;"):
        raise statement.error(f"{rest!r} is not obeyed: unknown option", ALTERED)


def _map(draft: _Draft, statement: Statement) -> None:
    """Take a MAP statement with its options."""
    pattern, rest = table_pattern(statement)
    named = _TARGET.match(rest)
    if named is None:
        raise statement.error("expected TARGET and a table name after the source's")
    target, rest = statement.first("a table name after TARGET", rest[named.end() :])
    if not name_parts(target) or "?" in target:
        raise statement.error(f"expected SCHEMA.TABLE after TARGET, found {target}")
    ignored = "".join(one for one in OPERATIONS.values() if one in draft.not_taken)
    found = MapRule(
        TableRule(pattern, ignored, line=statement.line),
        target,
        types=tuple(draft.types.values()),
        collisions=draft.collisions,
    )
    for clause in statement.clauses(rest):
        read = _CLAUSES.get(clause.name)
        if read is None:
            raise _refusal(statement, clause.name, clause.text, _CLAUSES)
        try:
            found = read(found, clause, statement)
        except OptionError as error:
            raise error.with_place(line=statement.line, field=clause.name) from None
    draft.parameters = replace(draft.parameters, maps=(*draft.parameters.maps, found))


def _of_rule(
    read: Callable[[TableRule, Clause, Statement], TableRule],
) -> Callable[[MapRule, Clause, Statement], MapRule]:
    """Return what reads an option that Extract's TABLE has too."""

    def apply(found: MapRule, clause: Clause, statement: Statement) -> MapRule:
        if not clause.argument:
            raise statement.error(f"expected parentheses after {clause.name}")
        return replace(found, rule=read(found.rule, clause, statement))

    return apply


def _colmap(found: MapRule, clause: Clause, statement: Statement) -> MapRule:
    columns: dict[str, Expression] = {}
    defaults = False
    for part in parts(clause.argument or ""):
        if part.upper() == "USEDEFAULTS":
            defaults = True
            continue
        assigned = _ASSIGNMENT.fullmatch(part)
        if assigned is None:
            raise statement.error(f"expected COLUMN = value in COLMAP, found {part!r}")
        name = unquote(assigned[1])
        if name.casefold() in {one.casefold() for one in columns}:
            raise statement.error(f"COLMAP gives the column {name} twice")
        columns[name] = parse_value(assigned[2])
    return replace(found, columns=tuple(columns.items()), defaults=defaults)


def _mapped_type(name: str, *, taken: bool) -> Callable[[MapRule, Clause, Statement], MapRule]:
    def apply(found: MapRule, _: Clause, __: Statement) -> MapRule:
        kept = [one for one in found.types if one != TYPES[name]]
        return replace(found, types=(*kept, TYPES[name]) if taken else tuple(kept))

    return apply


def _mapped_collisions(
    policy: Collisions, *, taken: bool
) -> Callable[[MapRule, Clause, Statement], MapRule]:
    def apply(found: MapRule, _: Clause, __: Statement) -> MapRule:
        if taken:
            return replace(found, collisions=policy)
        stated = found.collisions in (policy, None)
        return replace(found, collisions=Collisions.STOP if stated else found.collisions)

    return apply


def _mapped_operations(
    letter: str, *, taken: bool
) -> Callable[[MapRule, Clause, Statement], MapRule]:
    def apply(found: MapRule, _: Clause, __: Statement) -> MapRule:
        others = found.rule.ignored.replace(letter, "")
        return replace(found, rule=replace(found.rule, ignored=others + letter * (not taken)))

    return apply


def _toggle_operations(letter: str, *, taken: bool) -> Callable[[_Draft, Statement], None]:
    def apply(draft: _Draft, statement: Statement) -> None:
        (draft.not_taken.discard if taken else draft.not_taken.add)(letter)
        _nothing_more(statement, statement.rest)

    return apply


def _toggle_type(name: str, *, taken: bool) -> Callable[[_Draft, Statement], None]:
    def apply(draft: _Draft, statement: Statement) -> None:
        if taken:
            draft.types[name] = TYPES[name]
        else:
            draft.types.pop(name, None)
        _nothing_more(statement, statement.rest)

    return apply


def _toggle_collisions(policy: Collisions, *, taken: bool) -> Callable[[_Draft, Statement], None]:
    def apply(draft: _Draft, statement: Statement) -> None:
        if taken:
            draft.collisions = policy
        elif draft.collisions is policy:
            draft.collisions = None
        _nothing_more(statement, statement.rest)

    return apply


def _value(member: str, what: str) -> Callable[[_Draft, Statement], None]:
    """Return what takes a parameter's one value."""

    def apply(draft: _Draft, statement: Statement) -> None:
        value, rest = statement.first(what)
        draft.set_once(statement, **{member: unquote(value)})
        _nothing_more(statement, rest)

    return apply


def _exclude(draft: _Draft, statement: Statement) -> None:
    pattern, rest = table_pattern(statement)
    _nothing_more(statement, rest)
    excluded = (*draft.parameters.excluded, pattern)
    draft.parameters = replace(draft.parameters, excluded=excluded)


def _discardfile(draft: _Draft, statement: Statement) -> None:
    path, rest = statement.first("a file")
    draft.set_once(statement, discards=unquote(path))
    for word in re.split(r"[\s,]+", rest.strip(" ,;")):
        if word and word.upper() not in DISCARD_OPTIONS and not word.isdigit():
            raise statement.error(f"{word!r} is not obeyed: unknown option")


def _reperror(draft: _Draft, statement: Statement) -> None:
    """Note a response to an error; what it comes to is known when all are."""
    if draft.parameters.maps:
        hint = "Write it before the first MAP: it holds for all here"
        raise statement.error("REPERROR follows a MAP, and would not hold for that", hint)
    if statement.rest.strip("() ").upper() == "RESET":
        draft.errors.clear()
        return
    found = _ERROR.fullmatch(statement.rest)
    if found is None:
        problem = "expected (DEFAULT, ABEND) or another response after REPERROR"
        raise statement.error(problem)
    which, response, more = found[1].upper().lstrip("0"), found[2].upper(), found[3]
    if not (which in ("DEFAULT", "DEFAULT2") or which.lstrip("-").isdecimal()):
        raise statement.error(f"expected DEFAULT or the number of an error, found {found[1]}")
    later = which == "DEFAULT" and response == "EXCEPTION"  # DEFAULT2 may state what it is
    if (response not in POLICIES and not later) or more.strip(" ,"):
        reason = UNANSWERED.get(response, "")
        problem = f"the response {response} {more}".rstrip()
        raise statement.error(
            f"{problem} is not obeyed{reason and ': '}{reason}", f"There are {', '.join(POLICIES)}"
        )
    if which in draft.errors:
        raise statement.error(f"the response to {which} is given twice")
    draft.errors[which] = statement, response


def _with_responses(draft: _Draft) -> ReplicatParameters:
    """Return the parameters with the responses of REPERROR; raises OptionError for a number that would be answered otherwise than in Replicat."""
    given, unused = dict(draft.errors), []
    second = given.pop("DEFAULT2", None)
    if "DEFAULT" in given and given["DEFAULT"][1] == "EXCEPTION":
        # The reference: DEFAULT2 holds for tables without a MAP statement of exceptions, and such are refused here.
        if second is None:
            problem = f"the response EXCEPTION is not obeyed: {NO_EXCEPTIONS}"
            hint = "REPERROR (DEFAULT2, ...) states what holds without one"
            raise given["DEFAULT"][0].error(problem, hint)
        given["DEFAULT"], second = second, None
    if second is not None:
        reason = "it holds where the response of DEFAULT is EXCEPTION"
        unused.append(Remark(second[0].line, second[0].text.rstrip("; \t"), reason))
    default = given.pop("DEFAULT", (None, "ABEND"))[1]
    responses: dict[int, str] = {}
    for text, (statement, response) in given.items():
        number = int(text)
        group = next((own for own in NUMBERS if number in own), None)
        if group is None and response == default:
            reason = "the response is that of all errors"
            unused.append(Remark(statement.line, statement.text.rstrip("; \t"), reason))
            continue
        if group is None:
            known = ", ".join(str(one) for own in NUMBERS for one in own)
            problem = f"REPERROR ({number}, {response}) is not obeyed: the error is not distinguished from others"
            raise statement.error(problem, f"Errors of Oracle that are: {known}")
        for other in group:
            others = given.get(str(other), (None, default))[1]
            if others != response:
                problem = f"REPERROR ({number}, {response}) is not obeyed: {number} and {other} are one error here, and the response to {other} is {others}"
                raise statement.error(problem, "Give both the same response")
        responses[number] = POLICIES[response]
    found = draft.parameters
    return replace(
        found,
        on_error=POLICIES[default] if draft.errors else None,
        responses=MappingProxyType(responses),
        unused=tuple(sorted((*found.unused, *unused), key=lambda one: one.line)),
    )


def _insertallrecords(draft: _Draft, statement: Statement) -> None:
    if draft.parameters.maps:
        hint = "Write it before the first MAP: it holds for all here"
        raise statement.error(
            f"{statement.keyword} follows a MAP, which it would not hold for", hint
        )
    draft.set_once(statement, mode="append")
    _nothing_more(statement, statement.rest)


def _not_obeyed(draft: _Draft, statement: Statement) -> None:
    """Note a parameter that changes nothing about the data; raise for any other one."""
    reason = NOTED.get(statement.keyword)
    text = statement.text.rstrip("; \t")
    if reason is None:
        raise _refusal(statement, statement.keyword, text, _HANDLERS)
    remark = Remark(statement.line, text, reason)
    draft.parameters = replace(draft.parameters, unused=(*draft.parameters.unused, remark))


def _refusal(
    statement: Statement, name: str, text: str, known: Mapping[str, object]
) -> OptionError:
    reason = REFUSED.get(name)
    if reason is None:
        near = nearest(name, (*known, *REFUSED), cutoff=0.8)
        reason = "unknown parameter" + (f"; did you mean {near}?" if near else "")
    return statement.error(f"{text} is not obeyed: {reason}", ALTERED)


_HANDLERS: Final[Mapping[str, Callable[[_Draft, Statement], None]]] = MappingProxyType(
    {
        "REPLICAT": _value("group", "a group name"),
        "SOURCEDEFS": _value("sourcedefs", "a definitions file"),
        "MAP": _map,
        "MAPEXCLUDE": _exclude,
        "DISCARDFILE": _discardfile,
        "REPERROR": _reperror,
        "INSERTALLRECORDS": _insertallrecords,
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
_CLAUSES: Final[Mapping[str, Callable[[MapRule, Clause, Statement], MapRule]]] = MappingProxyType(
    {
        "COLMAP": _colmap,
        "KEYCOLS": _of_rule(column_names("key")),
        "FILTER": _of_rule(read_condition),
        "WHERE": _of_rule(read_condition),
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
