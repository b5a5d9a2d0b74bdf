"""What @GETENV gives: one row an item, by its group and its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Octets
from trailgate.model.changes import (
    BEGIN,
    DELETE,
    END,
    INSERT,
    KEY_UPDATE,
    MIDDLE,
    TRUNCATE,
    UPDATE,
    WHOLE,
    ChangeBlock,
)
from trailgate.model.operations_schema import COMMIT_TIME
from trailgate.operations.expressions.values import Surroundings

Data: TypeAlias = Any  # a column or a constant of Arrow
Give = Callable[[ChangeBlock, Surroundings], Data]

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


class Item(NamedTuple):
    """What an item gives, and whether the operation's transaction must be known for it."""

    give: Give
    of_transaction: bool = False


def commit_time(block: ChangeBlock, _: Surroundings) -> Data:
    """Return the time of each operation, as YYYY-MM-DD HH:MI:SS.FFFFFF."""
    # strftime of microseconds writes them after the seconds.
    naive = pa.array(block.op_ts).view(COMMIT_TIME).cast(pa.timestamp("us"))
    return pc.strftime(naive, format="%Y-%m-%d %H:%M:%S")


def _letters(codes: Octets, names: Mapping[int, str]) -> Data:
    known = pa.array(list(names.values()), pa.string())
    slots = np.zeros(256, np.int64)
    slots[list(names)] = np.arange(len(names))
    return known.take(pa.array(slots[codes]))


def _or_null(values: pa.Array | None) -> Data:
    return pa.scalar(None, pa.string()) if values is None else values


def _image(block: ChangeBlock, _: Surroundings) -> Data:
    return pc.if_else(pa.array(block.op_type == DELETE), "BEFORE", "AFTER")


def _always(text: str) -> Give:
    return lambda *_: pa.scalar(text, pa.string())


def _table(block: ChangeBlock, _: Surroundings) -> Data:
    return pa.scalar(block.table.name, pa.string())


ITEMS: Final[Mapping[str, Mapping[str, Item]]] = MappingProxyType(
    {
        "TRANSACTION": {
            "USERNAME": Item(lambda block, _: _or_null(block.tx_owner)),
            "NAME": Item(lambda block, _: _or_null(block.tx_name)),
            "TIMESTAMP": Item(commit_time),
            "TRANSACTIONID": Item(lambda block, _: block.tx_id, of_transaction=True),
            "XID": Item(lambda block, _: block.tx_id, of_transaction=True),
            "CSN": Item(lambda block, _: block.csn, of_transaction=True),
        },
        "GGHEADER": {
            "BEFOREAFTERINDICATOR": Item(_image),
            "COMMITTIMESTAMP": Item(commit_time),
            "LOGPOSITION": Item(_always(NO_POSITION)),
            "LOGRBA": Item(_always(NO_POSITION)),
            "OBJECTNAME": Item(_table),
            "TABLENAME": Item(_table),
            "OPTYPE": Item(lambda block, _: _letters(block.op_type, OPERATIONS)),
            "TRANSACTIONINDICATOR": Item(
                lambda block, _: _letters(block.tx_ind, INDICATORS), of_transaction=True
            ),
        },
        "RECORD": {
            "RSN": Item(lambda block, _: _or_null(block.seq_id)),
            "TIMESTAMP": Item(commit_time),
        },
        "GGENVIRONMENT": {
            "GROUPNAME": Item(lambda _, around: pa.scalar(around.group, pa.string())),
            "GROUPTYPE": Item(_always("EXTRACT")),
            "HOSTNAME": Item(lambda _, around: pa.scalar(around.host, pa.string())),
            "OSUSERNAME": Item(lambda _, around: pa.scalar(around.user, pa.string())),
        },
    }
)
OS_VARIABLE: Final = "OSVARIABLE"

# Groups and items that are refused, and why; of a group without items here all other items are unknown.
REFUSED: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("LAG", ""): "nothing waits while messages are captured",
        ("LASTERR", ""): "it is valid for Replicat",
        ("STATS", ""): "the run prints its own summary",
        ("DELTASTATS", ""): "the run prints its own summary",
        ("RECSOUTPUT", ""): "the run prints its own summary",
        ("GGFILEHEADER", ""): "it is valid for Replicat, which reads the file",
        ("DBENVIRONMENT", ""): "no database is read",
        ("TLFKEY", ""): "it belongs to NonStop",
        ("JULIANTIMESTAMP", ""): "it would differ from run to run",
        ("JULIANTIMESTAMP_PRECISE", ""): "it would differ from run to run",
        ("GGENVIRONMENT", "PROCESSID"): "it would differ from run to run",
        ("GGENVIRONMENT", "DOMAINNAME"): "it belongs to Windows",
        ("GGENVIRONMENT", "GROUPDESCRIPTION"): "a parameter file does not have it",
        ("GGHEADER", "RECORDLENGTH"): "it is known only after the record is written",
        ("RECORD", "FILESEQNO"): "it is of a trail that is read, and messages are read",
        ("RECORD", "FILERBA"): "it is of a trail that is read, and messages are read",
        ("RECORD", "ROWID"): "messages have no ROWID",
        ("TRANSACTION", "USERID"): "messages name the user: take USERNAME",
    }
)
