"""Errors of files name the file that the system refused, or the address that was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from trailgate.errors import EncodeError, StorageError, WriteError
from trailgate.model.tables import Column
from trailgate.storage.files.durable import convert_write_errors
from trailgate.storage.files.file_search import find_files
from trailgate.trail.values.codec import CellTarget, RecordValues
from trailgate.trail.values.text import encode_fixed_bytes


def test_a_refusal_names_the_file_of_the_system_else_the_one_that_was_written() -> None:
    for named, expected in (("/other", "/other"), (None, "/asked")):
        error = OSError(28, "No space left on device", named)
        with (
            pytest.raises(WriteError, match="No space left") as caught,
            convert_write_errors("/asked"),
        ):
            raise error
        assert caught.value.where.source == expected


def test_an_address_with_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    missing = str(tmp_path / "missing")
    with pytest.raises(StorageError, match="nothing is here") as caught:
        find_files([str(tmp_path / "there"), missing], "messages", "nothing is here")
    assert caught.value.where.source == missing


def test_bytes_that_are_not_hexadecimal_are_in_the_error() -> None:
    column = Column("B", 64, 2, sub_type=4)
    values = RecordValues(pa.array(["0A0B", "0AXY"]), np.arange(2))
    with pytest.raises(EncodeError) as caught:
        encode_fixed_bytes(CellTarget("S.T", column, 0), values)
    where = caught.value.where
    assert (where.table, where.field, where.raw) == ("S.T", "B", b"0AXY")
