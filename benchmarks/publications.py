"""Publications in and out on one core: read beside the plain delimited parser on the same bytes, written beside joins of Arrow's."""

from __future__ import annotations

from time import process_time
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.delimited import DEFINITIONS, QUOTED, parsed, quoted_lines
from benchmarks.report import Act, Figure, Target

from trailgate.capture.capture import Capture, Parsed
from trailgate.capture.formats import find_parser_type, publish_options, writer_for
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.formats.delimited.options import delimited_options
from trailgate.messages.message_batch import messages_from
from trailgate.messages.properties import parse_properties
from trailgate.messages.units import TransactionState
from trailgate.model.changes import ChangeBatch

ROWS: Final = 64_000
NEAR: Final = 0.85  # of the speed of the plain parser
RECORDS: Final = 1.0  # M a second
PROPERTIES: Final = b"parser.type=event_publishing\nevent_publishing.userdefs.tables=X.Y\nevent_publishing.userdefs.X.Y.columns=A\nevent_publishing.userdefs.X.Y.A=vchar 1\n"
WHOLE: Final = CaptureRules(compress_updates=False, update_befores=True, compress_deletes=False)


class _NoFiles:
    def chosen(self, path: str) -> str:
        return path


def capture_of() -> Capture:
    """Return a capture of delimited publications, of whole images."""
    properties = parse_properties(PROPERTIES)
    options, _ = find_parser_type(properties).setup(properties, _NoFiles())  # type: ignore[arg-type]
    return Capture(options, DEFINITIONS, WHOLE)


def in_turn(acts: dict[str, Act], times: int) -> dict[str, float]:
    """Return the least seconds of processor time of each, all of them in turn: other work on the machine meets all alike."""
    best = dict.fromkeys(acts, float("inf"))
    for _ in range(times):
        for name, act in acts.items():
            start = process_time()
            act()
            best[name] = min(best[name], process_time() - start)
    return best


def delimited_in(times: int) -> Figure:
    """Return reading beside the plain parser."""
    data = quoted_lines(ROWS)
    # The plain parser reads the same fields of the header: ids and the name of each transaction.
    given = QUOTED.properties.replace("delim.seqid=*seqid", "delim.seqid=lsn\ndelim.txname=plan")
    options = delimited_options(parse_properties(given.encode()))
    plain, own = Capture(options, DEFINITIONS, WHOLE), capture_of()
    assert parsed(data, plain) == ROWS
    taken = in_turn({"plain": lambda: parsed(data, plain), "own": lambda: parsed(data, own)}, times)
    megabytes = len(data) / 1e6
    return Figure(
        name="delimited in",
        figure=megabytes / taken["own"],
        unit="MB/s",
        yardstick="parser.type=delim",
        yardstick_figure=megabytes / taken["plain"],
        target=Target(NEAR),
    )


def operations() -> list[ChangeBatch]:
    """Return the operations of the same records, in batches as a trail's are."""
    capture, data = capture_of(), quoted_lines(ROWS)
    lines, batches = data.splitlines(keepends=True), []
    state: TransactionState | None = None
    for begin in range(0, len(lines), 16_000):
        done: Parsed = capture.parse(messages_from(lines[begin : begin + 16_000]), state)
        state = done.state
        batches.append(done.batch)
    return batches


def joined_rows(batch: ChangeBatch) -> list[pa.Array]:
    """Return the yardstick of writing: the values of each row put together by one call of Arrow's, without its header and quotes."""
    found = []
    for block in batch.blocks:
        strings = [
            pc.fill_null(pc.cast(column.values, pa.string()), "")
            for column in (*block.before, *block.after)
            if column.values is not None
        ]
        found.append(pc.binary_join_element_wise(*strings, ","))
    return found


def delimited_out(times: int) -> Figure:
    """Return writing beside joining the values' strings."""
    batches = operations()
    rows = sum(batch.rows for batch in batches)

    def own() -> None:
        writer = writer_for("delimited", publish_options("delimited", {}))
        made = [writer.write(batch) for batch in batches]
        assert sum(map(len, made)) + len(writer.finish()) > 0

    taken = in_turn(
        {"own": own, "joined": lambda: [joined_rows(batch) for batch in batches]}, times
    )
    figures = {name: rows / 1e6 / seconds for name, seconds in taken.items()}
    target = Target(RECORDS, of="figure")
    return Figure(
        name="delimited out",
        figure=figures["own"],
        unit="M rows/s",
        yardstick="Arrow's joins",
        yardstick_figure=figures["joined"],
        target=target,
    )


def run(*, quick: bool) -> list[Figure]:
    """Return the figures of all formats."""
    pa.set_cpu_count(1)
    times = 3 if quick else 9
    return [delimited_in(times), delimited_out(times)]
