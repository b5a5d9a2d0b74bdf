"""The tables in which operations and records of a trail are shown."""

from __future__ import annotations

from typing import Final

from trailgate.cli.output import printable
from trailgate.cli.row_output import Row, TableForm, short_time, value_text

ROWS: Final = 100  # that a table shows by default
DATA_SHOWN: Final = 24  # hexadecimal digits of a record's data


def _operation_cells(row: Row) -> tuple[str, ...]:
    return (
        row["position"] or "",
        short_time(row["op_ts"]),
        f"{row['tx_ind'] or ''} {row['tx_id'] or ''}",
        row["table"] or "",
        row["op_type"] or "",
        _change(row["before"] or {}, row["after"] or {}),
    )


def _change(before: dict[str, str | None], after: dict[str, str | None]) -> str:
    """Return columns as ``NAME=value``, and as ``NAME=old -> new`` if both are known."""
    parts = []
    for name in dict.fromkeys([*after, *before]):
        if name not in after:
            parts.append(f"{name}={value_text(before[name])}{' -> not logged' if after else ''}")
        elif name in before and before[name] != after[name]:
            parts.append(f"{name}={value_text(before[name])} -> {value_text(after[name])}")
        else:
            parts.append(f"{name}={value_text(after[name])}")
    return "  ".join(parts)


def _record_cells(row: Row) -> tuple[str, ...]:
    return (
        row["position"],
        str(row["length"]),
        f"{row['io_type']} {row['type_name']}",
        row["table"] or "",
        row["image"],
        str(row["trans_ind"]),
        short_time(row["io_time"]),
        "  ".join(_contents(row)),
    )


def _contents(row: Row) -> list[str]:
    """Return the contents of a record: a problem first, then its tokens, then its data in hex."""
    parts = [f"! {row['problem']}"] if row["problem"] else []
    for name in ("tokens", "user_tokens", "ddl"):
        parts += [f"{key}={printable(value)}" for key, value in (row[name] or {}).items()]
    data = row["data"]
    if data:
        parts.append(data if len(data) <= DATA_SHOWN else f"{data[:DATA_SHOWN]}...")
    return parts


OPERATIONS: Final = TableForm(
    {
        **dict.fromkeys(("position", "time", "tx"), False),
        "table": True,
        "op": True,
        "columns": True,
    },
    _operation_cells,
    ROWS,
)
RECORDS: Final = TableForm(
    {
        **dict.fromkeys(("position", "length", "type", "table", "image", "tx", "time"), False),
        "holds": True,
    },
    _record_cells,
    ROWS,
)
