"""A column of type 134 has eight bytes whatever lengths its definition states, and only whole numbers (decision 0124)."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from trailgate import DecodeError, capture_files, read_trail

DEFINITION = "ORDER_ID    134      8        0  0  0 0 0      8      8      8"
NARROW = "ORDER_ID    134      4        0  0  0 0 0      4      4      4"
PROPERTIES = """\
parser.type=delim
delim.sourcedefs=shop.def
delim.header=optype,tablename,ts,tx
delim.optype=optype
delim.optype.insertval=I
delim.schemaandtable=tablename
delim.timestamp=ts
delim.timestamp.format=YYYY-MM-DD HH:MI:SS
delim.txid=tx
delim.seqid=*seqid
delim.fielddelim=,
"""


def captured(folder: Path, value: str) -> int:
    """Capture an order with this number, and return the number that the trail has."""
    definitions = resources.files("trailgate").joinpath("samples/dirdef/shop.def").read_text()
    assert DEFINITION in definitions
    (folder / "shop.def").write_text(definitions.replace(DEFINITION, NARROW))
    (folder / "shop.properties").write_text(PROPERTIES)
    fields = f"{value},ANN,BOAT,1,9.5,2026-01-05 10:40:01"
    (folder / "1.txt").write_text(f"I,GG.SHOP_ORDERS,2026-01-05 10:40:02,T-1,{fields}\n")
    capture_files(folder / "1.txt", folder / "ot", folder / "shop.properties", base=folder)
    rows = read_trail(folder / "ot", table="GG.SHOP_ORDERS").read_all()
    (number,) = rows["ORDER_ID"].to_pylist()
    return int(number)


@pytest.mark.parametrize("value", ["5.0", "123456789012", "-9223372036854775808"])
def test_a_whole_number_of_eight_bytes_is_taken(tmp_path: Path, value: str) -> None:
    assert captured(tmp_path, value) == int(value.removesuffix(".0"))


@pytest.mark.parametrize("value", ["123456789012.5", "0.5", "9223372036854775808"])
def test_another_number_is_refused_with_its_limits(tmp_path: Path, value: str) -> None:
    with pytest.raises(DecodeError, match=r"outside -9223372036854775808 to .*, or not whole"):
        captured(tmp_path, value)
