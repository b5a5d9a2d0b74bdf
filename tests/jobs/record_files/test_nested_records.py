"""Records of several kinds as trees: a row a root, with lists of what is below it, whatever is read together."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framed_files import frame
from laws import examples
from oracles import cobol_naive as naive
from trailgate.cli.main import run
from trailgate.cobol.records import nested_decoding
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.errors import DecodeError, OptionError
from trailgate.mainframe.files.record_files import WHOLE_FILE
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.reading import read_records, read_undecoded_records
from trailgate.mainframe.jobs.verifying import verify_records

# A has B and D below it, B has C; V has W; X has none.
PARENTS = {"B": "A", "C": "B", "D": "A", "W": "V"}
NAMES = "ABCDVWX"
COPYBOOK = "\n".join(f"01 {name}. 05 K PIC X. 05 N{name} PIC 99." for name in NAMES)
OPTIONS: dict[str, Any] = {
    "kinds": "K: " + ", ".join(f"{name}={name}" for name in NAMES) + ", *",
    "parents": PARENTS,
    "children": "nested",
}


def bytes_of(records: str) -> list[bytes]:
    return [f"{name}{at % 100:02d}".encode("cp037") for at, name in enumerate(records)]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "r.cpy").write_text(COPYBOOK)
    return [str(tmp_path / "data"), str(tmp_path / "r.cpy")]


def rows(files: list[str], records: str, **options: Any) -> list[dict[str, Any]]:
    Path(files[0]).write_bytes(b"".join(bytes_of(records)))
    found: list[dict[str, Any]] = (
        read_records(*files, **{**OPTIONS, **options}).read_all().to_pylist()
    )
    return found


def test_a_root_has_its_children_and_theirs(files: list[str]) -> None:
    found = rows(files, "ABCCBDAX")

    assert [(row["_record"], row["_record_id"], row["_file"]) for row in found] == [
        ("A", 0, files[0]),
        ("A", 18, files[0]),
        ("X", 21, files[0]),
    ]
    assert found[0]["A"] == {
        "K": "A",
        "NA": 0,
        "B": [
            {"K": "B", "NB": 1, "C": [{"K": "C", "NC": 2}, {"K": "C", "NC": 3}]},
            {"K": "B", "NB": 4, "C": []},
        ],
        "D": [{"K": "D", "ND": 5}],
    }
    assert found[1]["A"] == {"K": "A", "NA": 6, "B": [], "D": []}
    assert found[2]["A"] is found[0]["X"] is None
    assert "B" not in found[0]


def test_a_segment_is_the_table_of_a_root(files: list[str]) -> None:
    found = rows(files, "XABCVW", segment="a", columns="NA,NC")

    path = {"_file": files[0], "_record_id": 3}
    assert found == [{**path, "NA": 1, "B": [{"C": [{"NC": 3}]}]}]
    with pytest.raises(OptionError, match=r"segment: B is below another one.*Known: A, V, X"):
        rows(files, "A", segment="B")


def test_added_columns_and_errors_are_those_of_each_record(files: list[str]) -> None:
    Path(files[0]).write_bytes("A0 B?1B02W33".encode("cp037"))
    options = {"errors": "column", "offset_column": True, "number_column": True, "raw": True}
    options |= {"file_column": True, "orphans": "drop"}

    (found,) = read_records(*files, **{**OPTIONS, **options}).read_all().to_pylist()

    assert [one["field"] for one in found["_errors"]] == ["NA"]
    assert (found["_offset"], found["_record_number"]) == (0, 1)
    first, second = found["A"]["B"]
    assert [one["field"] for one in first["_errors"]] == ["NB"]
    assert (first["_offset"], first["_record_number"], first["NB"]) == (3, 2, None)
    assert (second["_raw"], second["_errors"]) == ("B02".encode("cp037"), [])
    with pytest.raises(DecodeError, match=r"record 2, byte 4, field NB"):
        read_records(*files, **OPTIONS, orphans="drop", segment="A", columns="NB").read_all()


@pytest.mark.parametrize(
    ("records", "number", "wrong"),
    [("BA", 1, "B has no A before it"), ("ABDC", 0, ""), ("ADC", 3, "C .*has no B before it"),
     ("AVWB", 4, "B .*no A"), ("AXB", 0, ""), ("ABABAC", 6, "C .*no B")],
)  # fmt: skip
def test_a_record_without_a_parent_is_an_error_or_skipped(
    files: list[str], records: str, number: int, wrong: str
) -> None:
    if not wrong:
        rows(files, records)
        return
    with pytest.raises(DecodeError, match=rf"{wrong}.*record {number}, byte {3 * number - 3}\b"):
        rows(files, records)
    counts = verify_records(*files, **OPTIONS)
    assert [(one.reason, one.count) for one in counts.fields] == [("no parent", 1)]
    assert counts.fields[0].examples[0].record == number
    dropped = verify_records(*files, **OPTIONS, orphans="drop")
    assert dropped.is_good
    assert len(rows(files, records, orphans="drop")) == sum(name in "AVX" for name in records)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parents": None}, "children=nested needs parents"),
        ({"children": "ids", "orphans": "drop"}, "orphans is an option of children=nested"),
        ({"kinds": "K: A=A, B=B", "parents": "B=A", "rename": "NA=B"}, "two columns of A .* B"),
    ],
)
def test_what_cannot_be_nested_is_refused(
    files: list[str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        rows(files, "A", **options)


def named(tree: tuple[str, Any, dict[str, Any]]) -> dict[str, Any]:
    _, offset, below = tree
    return {"_offset": offset} | {
        child: [named(one) for one in trees] for child, trees in below.items()
    }


def bare(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its offset and its lists alone."""
    return {
        name: [bare(one) for one in value] if isinstance(value, list) else value
        for name, value in row.items()
        if isinstance(value, list) or name == "_offset"
    }


@settings(max_examples=examples(80), deadline=None)
@given(
    st.text(st.sampled_from(NAMES + "?"), min_size=0, max_size=30),
    st.lists(st.integers(0, 30), max_size=6),
)
def test_trees_are_those_of_the_naive_nesting_however_records_are_cut(
    tmp_path_factory: pytest.TempPathFactory, records: str, cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("nested")
    (folder / "r.cpy").write_text(COPYBOOK)
    (folder / "data").write_bytes(frame(bytes_of(records), Framing(FrameKind.RDW)))
    chosen = {**OPTIONS, "copybook": folder / "r.cpy", "record_format": "rdw", "orphans": "drop"}
    options = CopybookOptions.of({**chosen, "offset_column": True})
    decoder = options.decoder().of_file("data")

    found: list[dict[str, Any]] = []
    for split in options.splits(folder / "data", WHOLE_FILE):
        chunks = []
        for chunk in read_undecoded_records(split, options, decoder.tally):
            ends = sorted({0, len(chunk), *(cut for cut in cuts if cut < len(chunk))})
            chunks += [chunk.part(a, b) for a, b in pairwise(ends)]
        for piece in decoder.independent_pieces(chunks):
            for batch in decoder.batches(piece):
                batch.validate(full=True)
                found += batch.to_pylist()

    known = [(name, 7 * at + 4) for at, name in enumerate(records) if name != "?"]
    roots, orphans = naive.nest(known, PARENTS)
    trees = [
        {"_offset": row["_offset"]} | bare(row[row["_record"]] | {"_offset": row["_offset"]})
        for row in found
    ]
    assert [row["_record"] for row in found] == [name for name, _, _ in roots]
    assert trees == [named(root) for root in roots]
    dropped = sum(n for (what, _, _), n in decoder.tally.items() if what == "orphans=drop")
    assert dropped == len(orphans)


@settings(max_examples=examples(60), deadline=None)
@given(st.text(st.sampled_from("ABCDX"), max_size=30))
def test_exploded_trees_are_the_tables_joined_by_their_ids(
    tmp_path_factory: pytest.TempPathFactory, records: str
) -> None:
    folder = tmp_path_factory.mktemp("joined")
    (folder / "r.cpy").write_text(COPYBOOK)
    files = [str(folder / "data"), str(folder / "r.cpy")]
    options = {"offset_column": True, "orphans": "drop"}
    if not records:
        return

    nested = rows(files, records, **options)
    flat = rows(files, records, children="ids")

    exploded = []
    for row in nested:
        if row["_record"] == "A":
            own = row["_record_id"]
            exploded.append((own, None, None, "A", row["A"]["NA"]))
            exploded += [(own, None, d["_offset"], "D", d["ND"]) for d in row["A"]["D"]]
            for b in row["A"]["B"]:
                exploded.append((own, b["_offset"], None, "B", b["NB"]))
                exploded += [(own, b["_offset"], c["_offset"], "C", c["NC"]) for c in b["C"]]
    joined = []
    for row in flat:
        name, (one, two, three) = row["_record"], (row["_id_0"], row["_id_1"], row["_id_2"])
        value = row[name][f"N{name}"]
        if name == "A":
            joined.append((one, None, None, name, value))
        elif name == "D" and one is not None:
            joined.append((one, None, two, name, value))
        elif name == "B" and one is not None:
            joined.append((one, two, None, name, value))
        elif name == "C" and one is not None and two is not None:
            joined.append((one, two, three, name, value))
    assert sorted(exploded, key=str) == sorted(joined, key=str)


def test_trees_become_parquet_and_lines_of_the_command(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(files[0]).write_bytes(b"".join(bytes_of("XABCBAD" * 30)))
    parents = ", ".join(f"{child}={parent}" for child, parent in PARENTS.items())
    given = ["-o", f"kinds={OPTIONS['kinds']}", "-o", f"parents={parents}", "-o", "children=nested"]
    command = ["records", files[0], "--copybook", files[1], *given]

    assert run([*command, "--to", str(tmp_path / "out"), "-o", "splitBytes=9"]) == 0
    assert "90 records in 1 part" in capsys.readouterr().out
    table = pq.read_table(tmp_path / "out" / "A")
    assert table.num_rows == 60
    assert table.column("B").to_pylist()[0][0]["C"] == [{"K": "C", "NC": 3}]
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["A", "V", "X", "_SUCCESS"]

    Path(files[0]).write_bytes(b"".join([*bytes_of("XABA"), "A?!".encode("cp037")]))
    assert run([*command, "--format", "json", "--limit", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert run([*command, "--format", "json", "--limit", "4"]) == 1


def test_a_tree_that_does_not_fit_in_memory_is_refused(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nested_decoding, "MOST_BYTES", 20)
    assert len(rows(files, "AAAAAAAAAA")) == 10
    with pytest.raises(DecodeError, match=r"more than 20 bytes.*record 1, byte 0.*children=ids"):
        rows(files, "ABBBBBBBBB")
