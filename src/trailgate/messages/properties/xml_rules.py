"""The properties of XML rules: which there are, for which types of rules, and what they may be (capture properties §7.1)."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from trailgate.messages.properties.rows import SourceKind


class RuleType(Enum):
    """What a rule finds."""

    TRANSACTION = "tx"
    OPERATION = "op"
    COLUMN = "col"


class RuleProperty(NamedTuple):
    """A property whose value is a path into the message, or one of ``sources`` instead."""

    name: str
    types: tuple[RuleType, ...]
    sources: tuple[SourceKind, ...]
    doc: str


_TX, _OP, _COL = RuleType.TRANSACTION, RuleType.OPERATION, RuleType.COLUMN
_BOTH: Final = (_TX, _OP)
_HEADER, _LITERAL = SourceKind.HEADER, SourceKind.LITERAL
_ID: Final = (_HEADER, SourceKind.MESSAGE_ID)

VALUES: Final[tuple[RuleProperty, ...]] = (
    RuleProperty(
        "timestamp",
        _BOTH,
        (_HEADER, SourceKind.TIMESTAMP),
        "commit time; that of an operation overrides its transaction's",
    ),
    RuleProperty(
        "seqid",
        _BOTH,
        (*_ID, SourceKind.SEQ_ID),
        "sequence id; also the transaction's id if there is no `txid`",
    ),
    RuleProperty("txid", _BOTH, (*_ID, SourceKind.TX_ID), "transaction's id"),
    RuleProperty("txowner", _BOTH, (_HEADER, _LITERAL), "user of the transaction"),
    RuleProperty("txname", _BOTH, (_HEADER, _LITERAL), "name of the transaction"),
    RuleProperty("schemaandtable", (_OP,), (_HEADER, _LITERAL), "table, as SCHEMA.TABLE"),
    RuleProperty("schema", (_OP,), (_HEADER, _LITERAL), "schema of the table"),
    RuleProperty("table", (_OP,), (_HEADER, _LITERAL), "table, without its schema"),
    RuleProperty("optype", (_OP,), (_HEADER, _LITERAL), "operation type"),
    RuleProperty(
        "txind", (_OP,), (_HEADER,), "transaction indicator; not below a transaction rule"
    ),
    RuleProperty("name", (_COL,), (_LITERAL,), "column, by name"),
    RuleProperty("index", (_COL,), (_LITERAL,), "column, by number, from 0"),
    *(
        RuleProperty(f"{image}{name}", (_COL,), sources, doc.format(what))
        for image, what in (("", ""), ("before.", "before "), ("after.", "after "))
        for name, sources, doc in (
            ("value", (_LITERAL,), "{}value of the column"),
            ("isnull", (), "the {}value is NULL where the path finds anything"),
            ("ismissing", (), "the {}value is missing where the path finds anything"),
        )
    ),
)

# Further properties of a rule, whose values are not paths to values.
OTHERS: Final[dict[str, tuple[RuleType, ...]]] = {
    "type": tuple(RuleType),
    "match": tuple(RuleType),
    "subrules": _BOTH,
    "timestamp.format": _BOTH,
    **{f"optype.{word}val": (_OP,) for word in ("insert", "update", "delete", "truncate")},
    **{f"txind.{word}val": (_OP,) for word in ("begin", "middle", "end", "whole")},
}

SUBRULES: Final = {_TX: (_OP,), _OP: (_OP, _COL), _COL: ()}
