"""Print the output of ``trailgate records``: the report of ``--verify``, and rows of several kinds.

The report shows bad fields by reason with their first examples, and policy counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from trailgate.cobol.records.policy_counts import PolicyTally
from trailgate.errors import count_noun
from trailgate.storage.files.addresses import name_of
from trailgate.terminal.batches import Paint, RowForm
from trailgate.terminal.layout import PaintedText, TableRow, print_rows
from trailgate.terminal.output import printable, say
from trailgate.terminal.plain_values import Row, cell_text

if TYPE_CHECKING:
    from trailgate.mainframe.jobs.verifying import BadFieldExample, RecordsReport

BYTES: Final = 16  # the most bytes shown of a field


def report_values(report: RecordsReport) -> dict[str, Any]:
    """Convert a report of ``records --verify`` to JSON values, with bytes in hex."""
    fields = [asdict(one) for one in report.fields]
    for example in (example for one in fields for example in one["examples"]):
        example["raw"] = example["raw"].hex()
    counts = [
        {"policy": policy, "record": record, "field": field, "count": count}
        for (policy, record, field), count in sorted(report.counts.items())
    ]
    sums = {name: getattr(report, name) for name in ("files", "records", "bad_records")}
    return {
        "good": report.is_good,
        **sums,
        "fields": fields,
        "unread": report.unread,
        "counts": counts,
    }


def print_report(report: RecordsReport) -> None:
    """Print a report of ``records --verify``: bad fields as a table, what the problems mean, then the policy counts."""
    several = len({one.record for one in report.fields}) > 1
    files = len({example.file for one in report.fields for example in one.examples}) > 1
    if report.fields:
        rows = [
            (
                f"{one.record}.{one.field}".lstrip(".") if several else one.field,
                one.reason,
                one.count,
                _shown(one.examples, with_file=files),
            )
            for one in report.fields
        ]
        print_rows(("field", "reason", "count", "first examples"), rows)
    # print each problem once, with all fields that have it
    problems: dict[str, list[str]] = {}
    for one in report.fields:
        problems.setdefault(one.problem, []).append(one.field)
    for problem, names in problems.items():
        say(f"{', '.join(dict.fromkeys(names))}: {problem}", indent="  ")
    for error in report.unread:
        say(f"not read to its end: {printable(error)}", "red", indent="  ")
    for line in PolicyTally(report.counts).lines():
        say(line)
    read = f"{count_noun(report.records, 'record')} in {count_noun(report.files, 'file')}"
    if report.is_good:
        say(f"{read}: all fields are values", "green")
    else:
        say(f"{report.bad_records:,} of {read} bad", "red")


def record_types_form(names: Sequence[str], kinds: Collection[str], rows: int) -> RowForm:
    """Return a row form for ``trailgate records`` that shows in each row only the fields of its record type.

    ``kinds`` are the columns of the record types. In each row all but one of them are null.
    """
    head = [name for name in names if name not in kinds]

    def parts(row: Row, _: Paint) -> TableRow:
        cells = [cell_text(row[name]) for name in head]
        fields: Row = next((row[kind] for kind in kinds if row[kind] is not None), {})
        data = [f"{name}={cell_text(value)}" for name, value in fields.items()]
        return TableRow(
            [PaintedText(text, text) for text in cells], [PaintedText(text, text) for text in data]
        )

    return RowForm(head, parts, rows, data="fields")


def _shown(examples: Sequence[BadFieldExample], *, with_file: bool) -> list[str]:
    """Format examples for the table: all but the last are followed by a comma."""
    shown = [_in_words(example, with_file=with_file) for example in examples]
    return [f"{one}," for one in shown[:-1]] + shown[-1:]


def _in_words(example: BadFieldExample, *, with_file: bool) -> str:
    parts = [name_of(example.file)] if with_file else []
    if example.record is not None:
        parts.append(f"record {example.record}")
    if example.offset is not None:
        parts.append(f"byte {example.offset}")
    raw = example.raw[:BYTES].hex(" ") + (" ..." if len(example.raw) > BYTES else "")
    return " ".join(parts) + (f": {raw}" if raw else "")
