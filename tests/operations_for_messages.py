"""Operations that messages can say and captures take: with keys, and numbers in columns of numbers."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from held_captures import held_setup, messages_of
from trail.batches import operations_of
from trail.operation_strategies import DEFINITIONS, runs
from trailgate.capture.capture import Capture
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.model.tables import Definitions

ALL: Final = CaptureRules(compress_updates=False, compress_deletes=False, update_befores=True)
NUMBERS: Final = st.sampled_from(["0", "-1.50", "1E7", ".5", "+3", "007", "5.", "-0.10e-3"])
FIRST, LAST = (
    -62_135_596_800_000_000,
    253_402_300_799_999_999,
)  # microseconds of years that dates have
Operation = dict[str, Any]


@st.composite
def capturable(draw: st.DrawFn) -> list[Operation]:
    """Return operations that a capture takes."""
    operations = draw(runs())
    for at, operation in enumerate(operations):
        kind, table = operation["op_type"], DEFINITIONS.table(operation["table"])
        for side, kinds in (("before", "UKD"), ("after", "UKI")):
            image = dict(operation[side])
            for column in table.columns:
                if column.sub_type == 2 and image.get(column.name) is not None:
                    image[column.name] = draw(NUMBERS)
                if column.key and kind in kinds:
                    key = st.integers(0, 9) if column.data_type == 134 else st.just("k")
                    image[column.name] = draw(key)
            operations[at] = operations[at] | {side: image}
        names = st.text('aé"', max_size=3)
        tokens = draw(st.dictionaries(names, st.text(max_size=3), max_size=3))
        operations[at] |= {"op_ts": draw(st.integers(FIRST, LAST)), "tokens": tokens}
    return operations


def captured(
    properties: str, bodies: list[bytes], definitions: Definitions = DEFINITIONS
) -> list[Operation]:
    """Return the operations of messages, with those that were held until their end; ``x`` is the file of definitions."""
    options, _ = held_setup(properties, {"x": definitions})
    capture = Capture(options, definitions, ALL)
    parsed = capture.parse(messages_of(bodies))
    assert not parsed.problems, parsed.problems
    return operations_of(parsed.batch) + operations_of(capture.at_end(parsed.state).batch)


def warnings(operation: Operation) -> Operation:
    """Return what messages say of an operation: a key update is an update."""
    names = ("table", "op_type", "op_ts", "before", "after")
    kind = operation["op_type"].replace("K", "U")
    return {name: operation[name] for name in names} | {"op_type": kind}
