"""Records read with ``raw`` are written byte for byte, whatever they hold; only what was changed is another."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trailgate
from laws import examples
from trailgate.errors import EncodeError

COPYBOOK = """
01 R.
   05 KIND PIC X.
   05 N PIC 9.
   05 FILLER PIC X(2).
   05 A.
      10 NUM PIC S9(3).
      10 PACKED PIC S9(3) COMP-3.
   05 B REDEFINES A.
      10 TEXT-B PIC X(4).
      10 FILLER PIC X.
   05 BINARY-ITEM PIC S9(4) COMP.
   05 RATE COMP-1.
   05 SHOWN PIC Z9.
   05 T OCCURS 0 TO 3 DEPENDING ON N.
      10 CODE-T PIC X(2).
      10 VAL-T PIC 9(2) COMP-3.
   05 LAST-ONE PIC X(3).
"""
OPTIONS: dict[str, Any] = {
    "copybook_text": COPYBOOK,
    "record_format": "rdw",
    "errors": "column",
    "raw": True,
}
# Counters that are counts are more likely than by chance, so that all records are looked at whole.
RECORDS = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=1),
        st.sampled_from([b"\xf0", b"\xf1", b"\xf3", b"\xf9", b"?"]),
        st.one_of(
            st.binary(max_size=40), st.text("0123 AB", max_size=30).map(lambda t: t.encode("cp037"))
        ),
    ).map(b"".join),
    min_size=1,
    max_size=6,
)


def rdw(records: list[bytes]) -> bytes:
    return b"".join((len(r) + 4).to_bytes(2, "big") + bytes(2) + r for r in records)


def read(path: Path, **more: Any) -> pa.Table:
    return trailgate.read_records(path, **(OPTIONS | more)).read_all()


@pytest.mark.parametrize("shape", ["tree", "flat"])
@given(records=RECORDS)
@settings(max_examples=examples(60))
def test_any_bytes_are_written_as_they_were_read(shape: str, records: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        data, new = Path(folder) / "data", Path(folder) / "new"
        data.write_bytes(rdw(records))
        table = read(data, shape=shape)

        trailgate.write_records(table.to_batches(), new, **OPTIONS)

        assert new.read_bytes() == data.read_bytes()


WHOLE = bytes.fromhex("c1 f1 0102 f0f1a2 123f 1234 41100000 40f7 c1c2 023f 000102 ffff")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(rdw([WHOLE, WHOLE]))
    return path


def test_only_changed_fields_are_rewritten(tmp_path: Path, data: Path) -> None:
    table = read(data, shape="flat")
    place = table.schema.get_field_index("NUM")
    table = table.set_column(place, "NUM", pa.array([12, -5]))

    trailgate.write_records(table.to_batches(), tmp_path / "new", **OPTIONS)

    second = WHOLE.replace(b"\xf0\xf1\xa2", b"\xf0\xf0\xd5")
    assert (tmp_path / "new").read_bytes() == rdw([WHOLE, second])
    few = table.select(["NUM", "_raw"])
    trailgate.write_records(few.to_batches(), tmp_path / "few", **OPTIONS)
    assert (tmp_path / "few").read_bytes() == (tmp_path / "new").read_bytes()


def test_a_record_without_kept_bytes_is_written_whole(tmp_path: Path, data: Path) -> None:
    table = read(data, shape="flat")
    raw = table.schema.get_field_index("_raw")
    table = table.set_column(raw, "_raw", pa.array([WHOLE, None]))

    trailgate.write_records(table.to_batches(), tmp_path / "new", **OPTIONS)

    new = bytes.fromhex("c1 f1 4040 f0f1c2 123c 1234 41100000 40f7 c1c2 023f 000102")
    assert new != WHOLE
    written = (tmp_path / "new").read_bytes()
    assert written.startswith(rdw([WHOLE]))
    assert len(written) == len(rdw([WHOLE])) + 4 + len(new)
    with pytest.raises(EncodeError, match="no column for a field"):
        trailgate.write_records(
            table.select(["NUM", "_raw"]).to_batches(), tmp_path / "few", **OPTIONS
        )


def test_a_bad_count_in_kept_bytes_is_not_an_error_of_another_record(tmp_path: Path) -> None:
    bad = WHOLE[:1] + b"\xf9" + WHOLE[2:]
    path = tmp_path / "data"
    path.write_bytes(rdw([WHOLE, bad]))
    table = read(path, shape="flat")
    raw = table.schema.get_field_index("_raw")
    table = table.set_column(raw, "_raw", pa.array([None, bad]))

    trailgate.write_records(table.to_batches(), tmp_path / "new", **OPTIONS)

    new = bytes.fromhex("c1 f1 4040 f0f1a2 123c 1234 41100000 40f7 c1c2 023f 000102")
    assert (tmp_path / "new").read_bytes() == rdw([new, bad])


def test_a_counter_that_moves_items_is_refused(tmp_path: Path, data: Path) -> None:
    table = read(data, shape="flat")
    table = table.set_column(table.schema.get_field_index("N"), "N", pa.array([1, 2]))

    with pytest.raises(
        EncodeError, match=r"the count differs from that in _raw.*record 2, field N"
    ):
        trailgate.write_records(table.to_batches(), tmp_path / "new", **OPTIONS)
