"""Text files that editors of Windows or binary transfers from a mainframe made: each kind says what its encoding is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from sample_trail import Op, write_trail
from trailgate import TrailgateError, apply_trail, read_records
from trailgate.jobs.capture.loading import load_capture
from trailgate.storage.files.text_files import read_source

COPYBOOK: Final = "       01  R.\n           05 A PIC X(4).\n"
PROPERTIES: Final = "# A capture\nparser.type=json\njson.sourcedefs = a.def\n"
EXTRACT: Final = "EXTRACT jms\nVAM libggjava_vam.so, PARAMS (a.properties)\nTABLE GG.*;\n"
REPLICAT: Final = "REPLICAT r1\nMAP MY.*, TARGET h.*;\n"

# The encoding, a byte order mark before the text, and how errors name it.
ENCODINGS: Final = (
    ("utf-16-le", b"\xff\xfe", "UTF-16 text"),
    ("utf-16-be", b"\xfe\xff", "UTF-16 text"),
    ("utf-32-le", b"\xff\xfe\0\0", "UTF-32 text"),
    ("utf-16-le", b"", "UTF-16LE text"),
    ("utf-16-be", b"", "UTF-16BE text"),
    ("cp037", b"", "IBM1047 text"),
)


def _copybook(path: Path) -> object:
    (path.parent / "data").write_bytes(b"abcd")
    how: Any = {"code_page": "ascii"}
    return read_records(path.parent / "data", path, **how).read_all().to_pylist()


def _properties(path: Path) -> object:
    return load_capture(path)


def _extract(path: Path) -> object:
    return load_capture(extract=path)


def _replicat(path: Path) -> object:
    write_trail(path.parent / "ot", [[[Op("I", 1)]]])
    return apply_trail(path.parent / "ot", f"duckdb:{path.parent}/a.duckdb", params=str(path))


FILES: Final[Mapping[str, tuple[str, Callable[[Path], object]]]] = {
    "copybook": (COPYBOOK, _copybook),
    "properties file": (PROPERTIES, _properties),
    "parameter file": (EXTRACT, _extract),
    "parameter file of Replicat": (REPLICAT, _replicat),
}


@pytest.mark.parametrize(("encoding", "mark", "name"), ENCODINGS)
@pytest.mark.parametrize("kind", FILES)
def test_another_encoding_is_named(
    kind: str, encoding: str, mark: bytes, name: str, tmp_path: Path
) -> None:
    text, read = FILES[kind]
    path = tmp_path / "file"
    path.write_bytes(mark + text.encode(encoding))

    with pytest.raises(
        TrailgateError, match=rf"is {name}, not UTF-8 \(.*file\)\. Save it as UTF-8"
    ):
        read(path)


@pytest.mark.parametrize("text", ["注文=倉庫.注文\n", "ПОЛЕ:Ж=ЗАКАЗЫ\n", "Ä:Ö=Ü"])
def test_utf_8_without_blanks_is_not_ebcdic(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text, "utf-8")

    assert read_source(path) == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("#Настройки:имя_очереди_и_таблицы_заказов\nparser.type=json\n", "cp1251"),
        ("#Настройки:имя_очереди_и_таблицы_заказов\nparser.type=json\n", "koi8-r"),
        ("#Настройки:имя_очереди_и_таблицы_заказов\nparser.type=json\n", "cp866"),
        ("#Ρυθμίσεις:όνομα_ουράς_και_πίνακα_παραγγελιών\nparser.type=json\n", "cp1253"),
        ("#注文の待ち行列と表の名前をここに書きます。\nparser.type=json\n", "cp932"),
        ("#这里写订单队列和表的名称以及其他设置。\nparser.type=json\n", "gbk"),
    ],
)
def test_text_of_other_code_pages_without_blanks_is_not_ebcdic(
    text: str, encoding: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(text.encode(encoding))

    assert read_source(path) == text.encode(encoding).decode("latin-1")


@pytest.mark.parametrize("kind", ["copybook", "parameter file of Replicat"])
def test_a_byte_order_mark_of_utf_8_is_skipped(kind: str, tmp_path: Path) -> None:
    text, read = FILES[kind]
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    read(path)


def test_a_byte_that_is_not_utf_8_has_a_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(REPLICAT.replace("MAP", "-- caf\u00e9\nMAP").encode("latin-1"))
    with pytest.raises(TrailgateError, match=r"byte 0xe9 is not UTF-8 \(.*file, line 2"):
        _replicat(path)


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrailgateError, match="the properties file is a folder"):
        load_capture(tmp_path)
