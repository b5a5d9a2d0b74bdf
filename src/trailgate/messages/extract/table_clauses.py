"""The options of a TABLE statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trailgate.definitions.parameter_files import Clause, Statement, parts, unquoted
from trailgate.errors import OptionError, did_you_mean
from trailgate.messages.extract.rules import Condition, TableRule, Token
from trailgate.operations.expressions.parser import parse_condition, parse_value

LETTERS: Final = {"INSERT": "I", "UPDATE": "U", "DELETE": "D"}
NAMES: Final = re.compile(r"\"(?:[^\"]|\"\")+\"|[^\s,\"]+")
TOKEN: Final = re.compile(r"(\"[^\"]+\"|'[^']+'|[^\s=]+)\s*=\s*(.*)", re.DOTALL)
_LIMIT: Final = re.compile(r"(ON|IGNORE)\s+(INSERT|UPDATE|DELETE)S?", re.IGNORECASE)


class Refused(NamedTuple):
    """An option that is not obeyed, and why."""

    text: str
    reason: str


def read_table(statement: Statement, rule: TableRule, text: str) -> tuple[TableRule, list[Refused]]:
    """Return a rule with the options of a statement, and those that are not obeyed."""
    refused = []
    for clause in statement.clauses(text):
        read = CLAUSES.get(clause.name)
        if read is None:
            reason = REASONS.get(clause.name) or _unknown(clause.name)
            refused.append(Refused(clause.text, reason))
            continue
        if not clause.argument:
            raise statement.error(f"expected parentheses after {clause.name}")
        try:
            rule = read(rule, clause, statement)
        except OptionError as error:
            raise error.located(line=statement.line, field=clause.name) from None
    if rule.columns and rule.without:
        raise statement.error("COLS and COLSEXCEPT are given together")
    return rule, refused


def _unknown(name: str) -> str:
    return f"unknown option. {did_you_mean(name, (*CLAUSES, *REASONS))}".strip()


def _names(member: str) -> Callable[[TableRule, Clause, Statement], TableRule]:
    """Return what reads the names of columns."""

    def read(rule: TableRule, clause: Clause, statement: Statement) -> TableRule:
        if getattr(rule, member):
            raise statement.error(f"{clause.name} is given twice")
        argument = clause.argument or ""
        names = tuple(unquoted(name) for name in NAMES.findall(argument))
        if not names or NAMES.sub("", argument).strip(" \t,"):
            raise statement.error(f"expected names of columns, found {argument!r}")
        changes: Mapping[str, Any] = {member: names}
        return replace(rule, **changes)

    return read


def _condition(rule: TableRule, clause: Clause, _: Statement) -> TableRule:
    """Return the rule with a FILTER or WHERE; FILTER may limit itself to some operations."""
    limits, words = "", list(parts(clause.argument or ""))
    ignored = ""
    while clause.name == "FILTER" and len(words) > 1 and (found := _LIMIT.fullmatch(words[0])):
        letter = LETTERS[found[2].upper()]
        limits += letter if found[1].upper() == "ON" else ""
        ignored += letter if found[1].upper() == "IGNORE" else ""
        words.pop(0)
    applied = "".join(one for one in limits or "IUD" if one not in ignored)
    condition = Condition(clause.name, parse_condition(", ".join(words)), applied)
    return replace(rule, conditions=(*rule.conditions, condition))


def _tokens(rule: TableRule, clause: Clause, statement: Statement) -> TableRule:
    tokens = list(rule.tokens)
    for part in parts(clause.argument or ""):
        found = TOKEN.fullmatch(part)
        if found is None:
            raise statement.error(f"expected NAME = value in TOKENS, found {part!r}")
        name = unquoted(found[1])
        if name in {token.name for token in tokens}:
            raise statement.error(f"the token {name} is given twice")
        tokens.append(Token(name, parse_value(found[2])))
    return replace(rule, tokens=tuple(tokens))


CLAUSES: Final[Mapping[str, Callable[[TableRule, Clause, Statement], TableRule]]] = (
    MappingProxyType(
        {
            "KEYCOLS": _names("key"),
            "COLS": _names("columns"),
            "COLSEXCEPT": _names("without"),
            "FILTER": _condition,
            "WHERE": _condition,
            "TOKENS": _tokens,
        }
    )
)

_MAPPED_LATER: Final = "columns are not mapped while messages are captured"
_NO_SQL: Final = "no database is read"
REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "COLMAP": _MAPPED_LATER,
        "TARGET": _MAPPED_LATER,
        "TARGETDEF": _MAPPED_LATER,
        "DEF": "the properties file names the definitions",
        "SQLEXEC": _NO_SQL,
        "SQLPREDICATE": _NO_SQL,
        "FETCHCOLS": _NO_SQL,
        "FETCHCOLSEXCEPT": _NO_SQL,
        "FETCHMODCOLS": _NO_SQL,
        "FETCHMODCOLSEXCEPT": _NO_SQL,
        "FETCHBEFOREFILTER": _NO_SQL,
        "GETBEFORECOLS": "GETUPDATEBEFORES gives the before values",
        "EXITPARAM": "there are no user exits",
        "EVENTACTIONS": "there are no events",
        "CHARSET": "messages are UTF-8",
        "COLCHARSET": "messages are UTF-8",
        "TRIMSPACES": "text is captured as it is",
        "NOTRIMSPACES": "text is captured as it is",
        "REPLACEBADCHAR": "text that is not UTF-8 is an error of its message",
    }
)
