"""Wrong arguments of every public function: each is an error of ours or a TypeError, and leaves nothing behind."""

from __future__ import annotations

import inspect
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pytest

import trailgate
from capture_place import Place, row
from laws import sampled
from sample_trail import Op, write_trail
from trailgate import OptionError, TrailgateError, apply_trail, read_records, write_records
from trailgate.options import check_arguments

COPYBOOK: Final = "01 R. 05 A PIC 9(2). 05 B PIC X(3)."
BATCH: Final = pa.record_batch({"A": [1, 2], "B": ["x", "y"]})


def _generator() -> Iterator[object]:
    yield 3


class NotAStream:
    """Exports something that is not a stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return requested_schema


# Each kind of value that is passed by mistake.
WRONG: Final[Mapping[str, Callable[[], Any]]] = {
    "None": lambda: None,
    "a number": lambda: 3,
    "a negative number": lambda: -1,
    "a huge number": lambda: 10**30,
    "a huge negative number": lambda: -(10**30),
    "a fraction": lambda: 2.5,
    "a truth value": lambda: True,
    "an object": object,
    "a class": lambda: pa.Table,
    "a function": lambda: len,
    "a text": lambda: "text",
    "an empty text": lambda: "",
    "a text with a zero byte": lambda: "a\0b",
    "half of a surrogate pair": lambda: "\udc80",
    "bytes": lambda: b"\xff\x00",
    "a path": lambda: Path("/nowhere/at/all"),
    "an empty list": list,
    "texts": lambda: ["x"],
    "numbers": lambda: [3],
    "a list of None": lambda: [None],
    "a list of objects": lambda: [object()],
    "rows": lambda: [{"A": 1, "B": "x"}],
    "a mapping": lambda: {"A": 1},
    "a mapping of numbers": lambda: {1: 2},
    "a mapping of lists": lambda: {"A": [1], "B": ["x"]},
    "a set": lambda: {"x"},
    "a generator": _generator,
    "an array of Arrow": lambda: pa.array([1]),
    "a chunked array": lambda: pa.chunked_array([["x"]]),
    "an array of numpy": lambda: np.arange(3),
    "a schema": lambda: pa.schema([("A", pa.int64())]),
    "a stream that is none": NotAStream,
    "an open reader of nothing": lambda: pa.RecordBatchReader.from_batches(pa.schema([]), []),
    "a table of other columns": lambda: pa.table({"Q": [1]}),
    "a table of other types": lambda: pa.table({"A": [[1]], "B": [{"x": 1}]}),
    "batches with other schemas": lambda: [BATCH, pa.record_batch({"Z": [b"x"]})],
}
# Arguments that are good, by which the other arguments get as far as they can.
GOOD: Final[Mapping[str, Callable[[Path], dict[str, Any]]]] = {
    "write_records": lambda folder: {
        "batches": [BATCH],
        "path": folder / "new",
        "copybook_text": COPYBOOK,
    },
    "read_records": lambda folder: {"path": folder / "data", "copybook_text": COPYBOOK},
    "verify_records": lambda folder: {"path": folder / "data", "copybook_text": COPYBOOK},
    "messages_from": lambda _: {"bodies": [b"a,b"], "source": "messages"},
    "read_trail": lambda folder: {"path": folder / "ot"},
    "find_trail": lambda folder: {"path": folder / "ot"},
    "load_capture": lambda folder: {"properties": folder / "p.properties"},
    "capture_files": lambda folder: {
        "source": folder / "messages",
        "trail": folder / "new",
        "properties": folder / "p.properties",
    },
    "publish_trail": lambda folder: {"trail": folder / "ot", "to": folder / "new"},
    "redact_trail": lambda folder: {"trail": folder / "ot", "to": folder / "new"},
    "query": lambda folder: {"sql": f"SELECT 1 FROM '{folder}/ot'"},
    "apply_trail": lambda folder: {"trail": folder / "ot", "to": f"duckdb:{folder}/new"},
    "verify_tables": lambda folder: {"trail": folder / "ot", "to": f"duckdb:{folder}/tables"},
    "apply_repaired": lambda folder: {
        "trail": folder / "ot",
        "to": f"duckdb:{folder}/tables",
        "file": folder / "discards.jsonl",
    },
}


# A function that is passed is called: what it does is its caller's.
NOT_TRIED: Final = {"runner", "progress"}


def parameters() -> list[tuple[str, str]]:
    """Return each parameter of the functions: their options are in their signatures too."""
    return [
        (name, parameter)
        for name in GOOD
        for parameter in inspect.signature(getattr(trailgate, name)).parameters
        if parameter not in NOT_TRIED
    ]


def test_every_public_function_is_tried() -> None:
    known = {name for name in trailgate.__all__ if inspect.isfunction(getattr(trailgate, name))}
    assert known == set(GOOD)


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _use(found: Any) -> None:
    """Read what a function has returned."""
    if isinstance(found, pa.RecordBatchReader):
        found.read_all()


def _data(folder: Path) -> Path:
    (folder / "data").write_bytes("01abc02def".encode("cp037"))
    place = Place(folder)
    place.write(row(1))
    write_trail(folder / "ot", [[[Op("I", 1)]]])
    (folder / "discards.jsonl").write_text("")
    apply_trail(folder / "ot", f"duckdb:{folder}/tables")
    return folder


@pytest.mark.parametrize(("name", "parameter"), sampled(parameters(), 100, "arguments"))
def test_a_wrong_argument_is_an_error_of_ours(
    name: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(_data(tmp_path))
    # Notices quote half of a surrogate pair, which pytest's workers cannot send.
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    before = sorted(path.name for path in tmp_path.iterdir())
    faults = []
    for kind, made in WRONG.items():
        arguments = {**GOOD[name](tmp_path), parameter: made()}
        if parameter == "copybook":
            del arguments["copybook_text"]
        try:
            _use(getattr(trailgate, name)(**arguments))
        except (TrailgateError, TypeError):
            pass
        except Exception as error:  # noqa: BLE001  any other is a fault
            faults.append(f"{kind}: {type(error).__name__}: {error}")
        for path in tmp_path.iterdir():
            if path.name not in before:
                faults += [f"{kind} leaves {path.name}"] if "unfinished" in path.name else []
                _remove(path)
    assert faults == []


TAKEN: Final[Mapping[str, Callable[[], Any]]] = {
    "a table": lambda: pa.table(BATCH),
    "a batch": lambda: BATCH,
    "a list of batches": lambda: [BATCH],
    "a list of tables": lambda: [pa.table(BATCH)],
    "a generator of batches": lambda: iter([BATCH]),
    "a reader": lambda: pa.RecordBatchReader.from_batches(BATCH.schema, [BATCH]),
    "a table of two chunks": lambda: pa.Table.from_batches([BATCH.slice(0, 1), BATCH.slice(1)]),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_records_are_taken_in_each_form_of_arrow(kind: str, tmp_path: Path) -> None:
    assert write_records(TAKEN[kind](), tmp_path / "new", copybook_text=COPYBOOK) == 2
    found = read_records(tmp_path / "new", copybook_text=COPYBOOK).read_all()
    assert found.to_pydict() == BATCH.to_pydict()


def test_rows_are_an_error_that_states_what_to_do(tmp_path: Path) -> None:
    rows: Any = [{"A": 1, "B": "x"}]
    with pytest.raises(
        trailgate.OptionError, match=r"item 1 of batches is a dict.*pa\.Table\.from_pylist"
    ):
        write_records(rows, tmp_path / "new", copybook_text=COPYBOOK)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", sorted(GOOD))
def test_an_empty_text_is_an_error_and_writes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty path would mean the working folder."""
    monkeypatch.chdir(_data(tmp_path))
    before = sorted(tmp_path.rglob("*"))
    for parameter, value in GOOD[name](tmp_path).items():
        if isinstance(value, str | Path) and parameter not in ("copybook_text", "source"):
            with pytest.raises(trailgate.OptionError, match=r"empty|not the name of a file"):
                _use(getattr(trailgate, name)(**{**GOOD[name](tmp_path), parameter: ""}))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_type_alias_stands_for_its_value() -> None:
    """``type NAME = ...`` of Python 3.12, with which numpy 2.5 defines NDArray there."""
    aliases = pytest.importorskip("typing_extensions")
    item = TypeVar("item")
    items = aliases.TypeAliasType("items", list[item] | None, type_params=(item,))  # type: ignore[valid-type]

    def count(of: Any) -> int:
        return len(of or ())

    count.__annotations__["of"] = items[int]
    checked = check_arguments(count)
    assert (checked([1, 2]), checked(None)) == (2, 0)
    with pytest.raises(OptionError, match="of must be list or None, not 3"):
        checked(3)
