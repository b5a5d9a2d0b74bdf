"""The items of @GETENV: one row per item, by its group and name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Octets
from trailgate.columnar.numbers_kernels import DIGITS
from trailgate.errors import OptionError, did_you_mean
from trailgate.expressions.syntax import (
    Expression,
    FunctionCall,
    TextLiteral,
    double_quotes_hint,
    expression_error,
)
from trailgate.expressions.values import EvaluationScope, ExpressionValueType, GetenvValues, Value
from trailgate.model.changes import (
    BEGIN,
    COMMIT_TIME,
    DELETE,
    END,
    INSERT,
    KEY_UPDATE,
    MIDDLE,
    RECORD_LENGTH,
    TRUNCATE,
    UPDATE,
    WHOLE,
    ChangeBlock,
)

Data: TypeAlias = Any  # a column or a constant of Arrow
Give = Callable[[ChangeBlock, GetenvValues], Data]

# Names as the manuals print them (H.7 and Table H-1).
OPERATIONS: Final = {
    INSERT: "INSERT",
    UPDATE: "SQL COMPUPDATE",
    KEY_UPDATE: "PK UPDATE",
    DELETE: "DELETE",
    TRUNCATE: "TRUNCATE",
}
INDICATORS: Final = {BEGIN: "BEGIN", MIDDLE: "MIDDLE", END: "END", WHOLE: "WHOLE"}
NO_POSITION: Final = "0"  # messages have no transaction log (trail format §5.2)
OS_VARIABLE: Final = "OSVARIABLE"

# Refused groups and items, with the reason. An empty item means all items of the group.
REFUSED: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("LAG", ""): "the run reports its lag itself",
        (
            "LASTERR",
            "",
        ): "there is no exceptions table; the discard file states the error of each operation",
        ("STATS", ""): "the run prints its own summary",
        ("DELTASTATS", ""): "the run prints its own summary",
        ("RECSOUTPUT", ""): "the run prints its own summary",
        (
            "GGFILEHEADER",
            "",
        ): "it describes a file, not an operation; logdump prints file headers",
        ("DBENVIRONMENT", ""): "there is no database connection",
        ("TLFKEY", ""): "it belongs to NonStop",
        ("JULIANTIMESTAMP", ""): "it would differ from run to run",
        ("JULIANTIMESTAMP_PRECISE", ""): "it would differ from run to run",
        ("GGENVIRONMENT", "PROCESSID"): "it would differ from run to run",
        ("GGENVIRONMENT", "DOMAINNAME"): "it belongs to Windows",
        ("GGENVIRONMENT", "GROUPDESCRIPTION"): "a parameter file does not have it",
        ("RECORD", "ROWID"): "a ROWID is a position in the source database",
        ("TRANSACTION", "USERID"): "users have names but no numbers here: use USERNAME",
        ("TRANSACTION", "PLANNAME"): "it belongs to Db2 for z/OS, whose log is not read",
        ("TRANSACTION", "LOGBSN"): "it is a position in the source's log, which is not read",
        ("TRANSACTION", "REDOTHREAD"): "it belongs to Oracle's redo, which is not read",
    }
)


class GetenvItem(NamedTuple):
    """An item of @GETENV: where it may be used, and the function ``give`` of its value.

    ``of_transaction``: the operation's transaction must be known. ``of_messages`` and
    ``of_trails``: the item exists only for messages, or only for trails. ``of_records``: the value
    is known only when the record is written, so the item must be the complete value of a token.
    """

    give: Give
    of_transaction: bool = False
    of_messages: bool = False
    of_trails: bool = False
    of_records: bool = False


def commit_time(block: ChangeBlock, _: GetenvValues) -> Data:
    """Return the commit time of each operation as YYYY-MM-DD HH:MI:SS.FFFFFF, for @GETENV."""
    # For a timestamp in microseconds, Arrow's %S includes the fraction.
    naive = pa.array(block.op_ts).view(COMMIT_TIME).cast(pa.timestamp("us"))
    return pc.strftime(naive, format="%Y-%m-%d %H:%M:%S")


def _letters(codes: Octets, names: Mapping[int, str]) -> Data:
    """Map codes of operation types or indicators to the names that @GETENV returns."""
    known = pa.array(list(names.values()), pa.string())
    slots = np.zeros(256, np.int64)
    slots[list(names)] = np.arange(len(names))
    return known.take(pa.array(slots[codes]))


def _or_null(values: pa.Array | None) -> Data:
    return pa.scalar(None, pa.string()) if values is None else values


def _number(block: ChangeBlock, first: int, end: int) -> Data:
    """Return the digits [first, end) of each trail position, without leading zeros, for @GETENV.

    A position has ten digits for the file's sequence number and ten for the offset. For any other
    position the result is NULL.
    """
    known = pc.equal(pc.utf8_length(block.position), 2 * DIGITS)
    digits = pc.utf8_slice_codeunits(pc.if_else(known, block.position, None), first, end)
    # Through an integer, which drops the leading zeros.
    return pc.cast(pc.cast(digits, pa.int64()), pa.string())


def _image(block: ChangeBlock, _: GetenvValues) -> Data:
    return pc.if_else(pa.array(block.op_type == DELETE), "BEFORE", "AFTER")


def _always(text: str) -> Give:
    return lambda *_: pa.scalar(text, pa.string())


def _table(block: ChangeBlock, _: GetenvValues) -> Data:
    return pa.scalar(block.table.name, pa.string())


# By the first and the second argument of @GETENV.
ITEMS: Final[Mapping[str, Mapping[str, GetenvItem]]] = MappingProxyType(
    {
        "TRANSACTION": {
            "USERNAME": GetenvItem(lambda block, _: _or_null(block.tx_owner)),
            "NAME": GetenvItem(lambda block, _: _or_null(block.tx_name)),
            "TIMESTAMP": GetenvItem(commit_time),
            "TRANSACTIONID": GetenvItem(lambda block, _: block.tx_id, of_transaction=True),
            "XID": GetenvItem(lambda block, _: block.tx_id, of_transaction=True),
            "CSN": GetenvItem(lambda block, _: block.csn, of_transaction=True),
        },
        "GGHEADER": {
            "BEFOREAFTERINDICATOR": GetenvItem(_image),
            "COMMITTIMESTAMP": GetenvItem(commit_time),
            "LOGPOSITION": GetenvItem(_always(NO_POSITION), of_messages=True),
            "LOGRBA": GetenvItem(_always(NO_POSITION), of_messages=True),
            "OBJECTNAME": GetenvItem(_table),
            "RECORDLENGTH": GetenvItem(_always(RECORD_LENGTH), of_messages=True, of_records=True),
            "TABLENAME": GetenvItem(_table),
            "OPTYPE": GetenvItem(lambda block, _: _letters(block.op_type, OPERATIONS)),
            "TRANSACTIONINDICATOR": GetenvItem(
                lambda block, _: _letters(block.tx_ind, INDICATORS), of_transaction=True
            ),
        },
        "RECORD": {
            "FILESEQNO": GetenvItem(lambda block, _: _number(block, 0, DIGITS), of_trails=True),
            "FILERBA": GetenvItem(
                lambda block, _: _number(block, DIGITS, 2 * DIGITS), of_trails=True
            ),
            "RSN": GetenvItem(lambda block, _: _or_null(block.seq_id), of_messages=True),
            "TIMESTAMP": GetenvItem(commit_time),
        },
        "GGENVIRONMENT": {
            "GROUPNAME": GetenvItem(lambda _, around: pa.scalar(around.group, pa.string())),
            "GROUPTYPE": GetenvItem(lambda _, around: pa.scalar(around.group_type, pa.string())),
            "HOSTNAME": GetenvItem(lambda _, around: pa.scalar(around.host, pa.string())),
            "OSUSERNAME": GetenvItem(lambda _, around: pa.scalar(around.user, pa.string())),
        },
    }
)


def environment_item(call: FunctionCall) -> tuple[str, str]:
    """Return the group and item that a call of @GETENV names."""
    words = [node.text for node in call.arguments if isinstance(node, TextLiteral)]
    group = words[0].upper()
    item = words[1] if len(words) > 1 else ""
    return group, item if group == OS_VARIABLE else item.upper()


def items_of(expressions: Iterable[Expression]) -> set[tuple[str, str]]:
    """Return the groups and items of @GETENV that these expressions use."""
    calls = (call for one in expressions for call in one.calls())
    return {environment_item(call) for call in calls if call.function == "GETENV"}


def environment_value(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@GETENV: the value of an item for each row.

    Raises OptionError if the value is not known, for example that of an item of trails while messages
    are read.
    """
    group, item = environment_item(call)
    if group == OS_VARIABLE:
        variables = dict(scope.environment.variables)
        if item not in variables:
            hint = f"Set it, or add it to the parameter file: SETENV ({item} = 'value')"
            raise scope.error(f"the environment has no variable {item}", call, hint)
        return Value(pa.scalar(variables[item], pa.string()), ExpressionValueType.TEXT)
    row = ITEMS[group][item]
    if row.of_transaction and not scope.environment.has_transactions:
        problem = f"{item} is known only after operations are selected"
        raise scope.error(problem, call, "Use it in TOKENS")
    if row.of_messages and scope.environment.group_type != "EXTRACT":
        problem = f"{item} is not known for operations from a trail"
        hint = "@GETENV ('RECORD', 'FILESEQNO') and FILERBA give the position in the trail"
        if row.of_records:
            hint = "Let Extract put it into a token, and take it by @TOKEN ('name')"
        raise scope.error(problem, call, hint)
    if row.of_records and not scope.environment.is_whole_token:
        # Tokens are evaluated while messages are parsed: the writer chooses images and pieces of large values later.
        problem = f"{item} is known only when the record is written"
        hint = f"Make it the whole value of a token: TOKENS (NAME = @GETENV ('{group}', '{item}'))"
        raise scope.error(problem, call, hint)
    if row.of_trails and scope.environment.group_type == "EXTRACT":
        raise scope.error(f"{item} exists only in a trail, but messages are read", call)
    return Value(row.give(scope.block, scope.environment), ExpressionValueType.TEXT)


def check_environment(call: FunctionCall, text: str) -> None:
    """Raise OptionError with a caret if a call of @GETENV does not name a supported item."""
    if not all(isinstance(node, TextLiteral) for node in call.arguments):
        hint = "As in @GETENV ('TRANSACTION', 'USERNAME')"
        if any(double_quotes_hint(text, node.at) for node in call.arguments):
            hint += ", or write NOUSEANSISQLQUOTES before it"
        raise expression_error("@GETENV takes words in single quotes", text, call.at, hint)
    group, item = environment_item(call)
    if group == OS_VARIABLE and item:
        return
    raise_refused = REFUSED.get((group, "")) or REFUSED.get((group, item))
    if raise_refused:
        named = f"{group} {item}".strip()
        raise expression_error(f"@GETENV does not support {named}: {raise_refused}", text, call.at)
    if group not in ITEMS or item not in ITEMS[group]:
        raise _unknown_item(group, item, call, text)


def _unknown_item(group: str, item: str, call: FunctionCall, text: str) -> OptionError:
    known = ITEMS.get(group)
    if known is None:
        names, word = [*ITEMS, OS_VARIABLE], group
    else:
        names, word = list(known), item
    hint = did_you_mean(word, names) or f"Known: {', '.join(names)}"
    return expression_error(f"@GETENV does not know {word!r}", text, call.at, hint)
