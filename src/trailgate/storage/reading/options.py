"""What a trail is read by: one frozen value, made of text at one place for all front ends.

Names are compared without case, underscores and hyphens: Spark's ``fromPosition``, Python's
``from_position`` and the command line's ``--from-position`` are one option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, Self

from trailgate.errors import OptionError
from trailgate.model.positions import parse_position
from trailgate.model.table_patterns import TablePatterns
from trailgate.trail.values.charsets import charset_named

ALL_RECORDS: Final = "all"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Which part of a trail is read, and in what shape; None: no such bound."""

    table: str | None = None
    tables: TablePatterns | None = None
    records: str | None = None
    definitions: Any = None
    charset: str | None = None
    after: str | None = None
    from_position: str | None = None
    to_position: str | None = None
    from_csn: str | None = None
    to_csn: str | None = None

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> Self:
        """Return the options of these names; raises OptionError for an unknown or a bad one."""
        return cls(**read_options(named, OPTIONS))

    def __post_init__(self) -> None:
        if self.records is not None:
            for name in ("table", "from_csn", "to_csn"):
                if getattr(self, name) is not None:
                    raise OptionError(
                        f"{_camel(name)} is about operations, records=all gives records",
                        hint="Choose records by tables, fromPosition, toPosition or after",
                    )
        if self.table is not None and self.tables is not None:
            raise OptionError(
                "table and tables are both given",
                hint="table gives one table in its types, tables chooses some in the general shape",
            )


class OptionRow(NamedTuple):
    """One option: its field, what makes its value of text, and what it says."""

    name: str
    read: Callable[[str], Any]
    meaning: str


def _position(text: str) -> str:
    parse_position(text)
    return text


def _records(text: str) -> str | None:
    if text not in (ALL_RECORDS, "operations"):
        raise OptionError(f"records is operations or all, not {text!r}")
    return ALL_RECORDS if text == ALL_RECORDS else None


def _text(text: str) -> str:
    if not text:
        raise OptionError("an option's value is empty")
    return text


OPTIONS: Final = (
    OptionRow("table", _text, "this table's operations in the types of its columns"),
    OptionRow("tables", TablePatterns.read, "only these tables; * and ? stand for characters"),
    OptionRow("records", _records, "all: every record with its header, instead of operations"),
    OptionRow("definitions", _text, "the definitions file, if it is not PREFIX.def"),
    OptionRow("charset", charset_named, "the character set of the source's texts"),
    OptionRow("after", _position, "only what is behind this position"),
    OptionRow("from_position", _position, "only what is at this position or behind it"),
    OptionRow("to_position", _position, "only what is at this position or in front of it"),
    OptionRow("from_csn", _text, "only transactions of this commit sequence number or a later one"),
    OptionRow(
        "to_csn", _text, "only transactions of this commit sequence number or an earlier one"
    ),
)


def read_options(
    named: Mapping[str, Any], rows: Iterable[OptionRow], what: str = "trail"
) -> dict[str, Any]:
    """Return values by field name; None is as if not given; raises OptionError.

    ``what`` is the format whose options they are.
    """
    known = {_folded(row.name): row for row in rows}
    values = {}
    for name, value in named.items():
        row = known.get(_folded(name))
        if row is None:
            raise _unknown(name, [row.name for row in known.values()], what)
        if value is not None:
            values[row.name] = _read(row, value)
    return values


def _read(row: OptionRow, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return row.read(value)
    except OptionError as error:
        raise OptionError(error.problem, hint=error.hint).located(field=_camel(row.name)) from None


def _unknown(name: str, names: list[str], what: str) -> OptionError:
    shown = {_folded(one): _camel(one) for one in names}
    near = get_close_matches(_folded(name), list(shown), 1)
    hint = f"Did you mean {shown[near[0]]}?" if near else "Known: " + ", ".join(shown.values())
    return OptionError(f"the format {what} has no option {name}", hint=hint)


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
