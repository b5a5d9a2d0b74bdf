"""Promises about odd names, absurd manifests and impossible times: an error of ours, or output that is valid."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from raw_trail import write_files
from trail.building import cell, record, text
from trailgate.cli.main import run
from trailgate.errors import OptionError, StorageError
from trailgate.storage.files.addresses import LOCAL
from trailgate.storage.files.file_search import find_files, list_matching, list_names
from trailgate.storage.files.trail_files import find_trail, find_trails
from trailgate.storage.reading.trails import read_trail

ODD = os.fsdecode(b"o\xfft")


def files_of(*paths: Path | str) -> list[str]:
    return [Path(found.path).name for found in find_files(paths, "messages", "nothing here")]


def test_hidden_files_of_folders_and_patterns_are_skipped(tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden", "_SUCCESS"):
        (tmp_path / name).touch()
    assert files_of(tmp_path) == ["a", "b"]
    assert files_of(tmp_path / "*") == ["a", "b"]
    assert files_of(tmp_path / "_*") == ["_SUCCESS"]
    assert files_of(tmp_path / "_SUCCESS") == ["_SUCCESS"]


NUMBERED = re.compile(r".*\d{6}")
NEIGHBORS = (
    "ot000000",
    "ot000001",
    "so000000",
    "ot.def",
    "ot000000.bak",
    ODD + "000000",
    "ö000000",
)


@pytest.mark.parametrize("folder", [".", "{}", "{}/", "{}/missing", "{}/link"])
def test_matching_names_are_those_of_the_whole_list(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in NEIGHBORS:
        (tmp_path / name).write_bytes(name.encode(errors="replace"))
    (tmp_path / "folder000000").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "target000000").symlink_to("ot000001")
    (tmp_path / "nowhere000000").symlink_to("missing")
    folder = folder.format(tmp_path)

    expected = [one for one in list_names(LOCAL, folder)[0] if NUMBERED.fullmatch(one.base_name)]
    listed = list_matching(LOCAL, folder, NUMBERED)

    assert sorted(map(str, listed)) == sorted(map(str, expected))
    assert bool(listed) == ("missing" not in folder)


def test_a_folder_that_cannot_be_listed_is_the_same_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = str(tmp_path / "file")

    with pytest.raises(OSError, match="file") as whole:
        list_names(LOCAL, folder)
    with pytest.raises(OSError, match=re.escape(str(whole.value))):
        list_matching(LOCAL, folder, NUMBERED)


def test_addresses_count_in_their_order_and_each_file_once(tmp_path: Path) -> None:
    for name in ("one/a", "one/b", "two/c", "[x]"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert files_of(tmp_path / "two", tmp_path / "one") == ["c", "a", "b"]
    assert files_of(tmp_path / "one/b", tmp_path / "one") == ["b", "a"]
    assert files_of(tmp_path / "*/[bc]") == ["b", "c"]
    assert files_of(tmp_path / "[x]") == ["[x]"]
    with pytest.raises(StorageError, match="nothing here"):
        files_of(tmp_path / "one", tmp_path / "x*")
    with pytest.raises(OptionError, match="list of paths is empty"):
        files_of()


def test_a_pattern_of_trails_is_one_of_prefixes(tmp_path: Path) -> None:
    for name in ("aa", "ab", "ba"):
        write_files(tmp_path / name, [[]])
    found = find_trails(f"{tmp_path}/a?")
    assert [Path(trail.prefix).name for trail in found] == ["aa", "ab"]
    assert len(find_trails([f"{tmp_path}/*", f"{tmp_path}/aa"])) == 3
    with pytest.raises(StorageError, match="no trail files here"):
        find_trails(f"{tmp_path}/c*")


def test_names_that_are_not_utf_8_are_errors(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"the path .*o\\xfft is not UTF-8"):
        find_trail(tmp_path / ODD)
    prefix = write_files(tmp_path / "ot", [[]])
    try:
        (tmp_path / ODD).touch()
    except OSError:
        pytest.skip("this file system has no such names")
    assert find_trail(prefix).files
    with pytest.raises(StorageError, match="1 names that are not UTF-8"):
        files_of(tmp_path)


@pytest.mark.parametrize("manifest", ["[" * 100_000, "[]", "1", "{}", '{"files": [1]}', "\0"])
def test_a_manifest_that_is_none_is_an_error(tmp_path: Path, manifest: str) -> None:
    prefix = write_files(tmp_path / "ot", [[]])
    Path(f"{prefix}.manifest.json").write_text(manifest)
    with pytest.raises(StorageError, match="the manifest cannot be understood") as caught:
        find_trail(prefix)
    assert "Error(" not in str(caught.value)
    assert "A trail can be read without it: move it away" in str(caught.value)
    assert run(["check", str(prefix)]) == 1


@pytest.mark.parametrize("time", [-(2**62), 253_402_300_800_000_000, 2**62])
def test_times_that_no_date_has_are_null_and_logged(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    time: int,
) -> None:
    data = cell(0, b"\0\0" + bytes(8)) + cell(1, text("x"))
    one = record(5, data, name="MY.ORDERS", trans_ind=3, io_time=time)
    prefix = write_files(tmp_path / "ot", [[one]])
    assert read_trail(prefix).read_all()["op_ts"].to_pylist() == [None]
    assert read_trail(prefix, table="MY.ORDERS").read_all()["_op_ts"].to_pylist() == [None]
    assert "commit times outside of the years 1 to 9999 are null" in caplog.text
    assert run(["show", str(prefix), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["op_ts"] is None
    assert run(["show", str(prefix), "--format", "csv"]) == 0
