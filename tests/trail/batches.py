"""Operations as plain dicts <-> change batches and naive records, for the tests of the trail."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from trailgate.model.changes import ABSENT, ChangeBatch, ChangeBlock, Image, StateColumn
from trailgate.model.tables import Column, Definitions, Table

Operation = dict[str, Any]
IO_TYPES = {"I": 5, "U": 15, "K": 115, "D": 3, "T": 100}
TRANS_IND = {"B": 0, "M": 1, "E": 2, "W": 3}
COMPARED = ("table", "op_type", "op_ts", "tx_ind", "tx_id", "csn", "before", "after")


def image_of(table: Table, images: Sequence[dict[str, Any]]) -> Image:
    columns = []
    for column in table.columns:
        missing = np.array([column.name not in image for image in images], bool)
        if missing.all():
            columns.append(ABSENT)
            continue
        values = pa.array([image.get(column.name) for image in images], column.arrow_type)
        columns.append(StateColumn(values, missing if missing.any() else None))
    return tuple(columns)


def batch_of(definitions: Definitions, operations: Sequence[Operation]) -> ChangeBatch:
    blocks = []
    for table in definitions:
        rows = [i for i, op in enumerate(operations) if op["table"] == table.name]
        if rows:
            blocks.append(_block(table, np.array(rows), [operations[i] for i in rows]))
    return ChangeBatch(blocks, len(operations))


def _block(table: Table, order: Any, ops: Sequence[Operation]) -> ChangeBlock:
    return ChangeBlock(
        table=table,
        order=order,
        op_type=np.array([ord(op["op_type"]) for op in ops], np.uint8),
        op_ts=np.array([op["op_ts"] for op in ops], np.int64),
        tx_ind=np.array([ord(op["tx_ind"]) for op in ops], np.uint8),
        tx_id=pa.array([op["tx_id"] for op in ops], pa.string()),
        csn=pa.array([op["csn"] for op in ops], pa.string()),
        seq_id=None,
        position=pa.array([""] * len(ops)),
        before=image_of(table, [op["before"] for op in ops]),
        after=image_of(table, [op["after"] for op in ops]),
        tokens=tokens_of(ops),
    )


def tokens_of(ops: Sequence[Operation]) -> pa.MapArray | None:
    """Return the tokens of operations that have any beside those of their columns."""
    if not any(op.get("tokens") for op in ops):
        return None
    rows = [list(op.get("tokens", {}).items()) for op in ops]
    return pa.array(rows, pa.map_(pa.string(), pa.string()))


def operations_of(batch: ChangeBatch) -> list[Operation]:
    found: list[Operation] = [{} for _ in range(batch.rows)]
    for block in batch.blocks:
        before, after = images_of(block, block.before), images_of(block, block.after)
        tx_id, csn = block.tx_id.to_pylist(), block.csn.to_pylist()
        position = block.position.to_pylist()
        tokens = (
            [dict(t or ()) for t in block.tokens.to_pylist()] if block.tokens is not None else None
        )
        for i, row in enumerate(block.order.tolist()):
            assert not found[row]
            found[row] = {
                "table": block.table.name,
                "op_type": chr(block.op_type[i]),
                "op_ts": int(block.op_ts[i]),
                "tx_ind": chr(block.tx_ind[i]),
                "tx_id": tx_id[i],
                "csn": csn[i],
                "position": position[i],
                "tokens": tokens[i] if tokens else {},
                "before": before[i],
                "after": after[i],
            }
    return found


def images_of(block: ChangeBlock, image: Image) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in range(len(block))]
    for column, state in zip(block.table.columns, image, strict=True):
        if state.values is None:
            continue
        state.values.validate(full=True)
        assert state.values.type == column.arrow_type
        missing = state.is_missing(len(block))
        for i, value in enumerate(state.values.to_pylist()):
            if missing[i]:
                assert value is None
            else:
                rows[i][column.name] = value
    return rows


def compared(operations: Sequence[Operation]) -> list[Operation]:
    """Return operations without what writing does not keep."""
    return [{name: op[name] for name in COMPARED} for op in operations]


def naive_records(definitions: Definitions, operations: Sequence[Operation]) -> list[Operation]:
    """Return the records that the operations must become, for the naive writer."""
    records = []
    for op in operations:
        table = definitions.table(op["table"])
        kind, ind = op["op_type"], TRANS_IND[op["tx_ind"]]
        tokens = {"LOGCSN": op["csn"], "TRANID": op["tx_id"]} if ind in (0, 3) else {}
        tokens = {name: text for name, text in tokens.items() if text is not None}
        before, after = (by_index(table, op[side]) for side in ("before", "after"))
        record = {"table": op["table"], "io_type": IO_TYPES[kind], "op_ts": op["op_ts"]}
        record |= {"image": "A", "trans_ind": ind, "tokens": tokens, "columns": after}
        if kind == "D":
            record |= {"image": "B", "columns": before}
        if kind == "K":
            record |= {"before": before}
        if kind == "U" and before:
            first = {"B": 0, "W": 0, "M": 1, "E": 1}[op["tx_ind"]]
            records.append(record | {"image": "B", "columns": before, "trans_ind": first})
            last = {"B": 1, "W": 2, "M": 1, "E": 2}[op["tx_ind"]]
            record |= {"tokens": {}, "trans_ind": last}
        records.append(record)
    return records


def by_index(table: Table, image: dict[str, Any]) -> dict[int, Any]:
    """Return an image as the naive oracle has it: columns by index, decimals unscaled."""
    return {
        i: unscaled(column, image[column.name])
        for i, column in enumerate(table.columns)
        if column.name in image
    }


def unscaled(column: Column, value: Any) -> Any:
    return int(value.scaleb(column.scale)) if isinstance(value, Decimal) else value
