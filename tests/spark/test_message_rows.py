"""Rows of messages on Spark are those of complete transactions: an open one is not written, so its values cannot fail a job."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sample_trail import Op, changes
from trailgate.capture.formats import PUBLICATIONS, publish_options
from trailgate.errors import EncodeError
from trailgate.model.changes import ChangeBatch
from trailgate.publish.spark.rows import MessageRows

LONG = "x" * 500
TRANSACTIONS = [[Op("I", 1)], [Op("I", 2), Op("I", 3), Op("I", 4)], [Op("I", 5), Op("I", 6)]]


def parts(batch: ChangeBatch, size: int) -> list[ChangeBatch]:
    """Return the operations of a batch in batches of a size."""
    number = np.arange(batch.rows) // size
    return [batch.where(number == part) for part in range(number.max() + 1)]


def rows_of(name: str, batches: list[ChangeBatch], *, with_open: bool = False) -> pa.Table:
    rows = MessageRows(name, publish_options(name, {}), None)
    written = [one for batch in batches for one in rows.write(batch)]
    return pa.Table.from_batches([*written, *rows.finish(with_open=with_open)])


@pytest.mark.parametrize("name", [row.name for row in PUBLICATIONS])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_messages_do_not_depend_on_how_operations_are_cut_into_batches(
    name: str, size: int
) -> None:
    batch = changes(TRANSACTIONS)

    assert rows_of(name, parts(batch, size)).equals(rows_of(name, [batch]))


@pytest.mark.parametrize("name", [row.name for row in PUBLICATIONS])
def test_an_open_transaction_has_rows_only_on_request(name: str) -> None:
    batch = changes(TRANSACTIONS)
    complete, with_open = batch.where(np.arange(6) < 4), batch.where(np.arange(6) < 5)

    assert rows_of(name, [with_open]).equals(rows_of(name, [complete]))
    assert len(rows_of(name, [with_open], with_open=True)) > len(rows_of(name, [complete]))


def test_a_value_that_cannot_be_written_is_an_error_only_when_its_transaction_has_ended() -> None:
    options = publish_options("json", {"max_message_bytes": 400})
    batch = changes([[Op("I", 1)], [Op("I", 2, LONG), Op("I", 3)]])
    first, rest = batch.where(np.arange(3) < 2), batch.where(np.arange(3) == 2)
    rows = MessageRows("json", options, None)

    assert sum(map(len, rows.write(first))) == 1
    with pytest.raises(EncodeError):
        list(rows.write(rest))

    rows = MessageRows("json", options, None)
    assert sum(map(len, [*rows.write(first), *rows.finish()])) == 1
