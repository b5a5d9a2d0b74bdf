"""Files that are missing, empty, or not of the size that their headers state: views print one notice, and whatever passes operations on stops or exits with 4."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from apply.test_changing_trails import (
    THREE,
    append,
    cut,
    keys,
    landed,
    path_of,
    remove,
    transaction,
    write_trail,
)
from trailgate import StorageError, apply_trail, find_trail, query, read_trail
from trailgate.cli.main import run
from trailgate.jobs.trail_check import check_trail
from trailgate.storage.files.manifest import Manifest, ManifestFile, read_manifest, write_manifest
from trailgate.storage.files.trail_files import list_trail
from trailgate.storage.reading.trail_stream import EARLIEST, TrailStream

Change = Callable[[Path], None]


def with_manifest(prefix: Path) -> Path:
    """Write a manifest that lists the files of a trail."""
    files = tuple(
        ManifestFile(Path(file.path).name, file.number, file.size, None)
        for file in find_trail(prefix).files
    )
    write_manifest(str(prefix), Manifest(files))
    return prefix


def write_nothing(number: int) -> Change:
    def change(prefix: Path) -> None:
        path_of(prefix, number).write_bytes(b"")

    return change


def publish(prefix: Path) -> int:
    """Return the exit code of a publication to a folder beside the trail."""
    to = str(prefix.parent / "messages")
    return run(["publish", str(prefix), "--to", to, "--format", "json"])


def apply(prefix: Path) -> int:
    """Return the exit code of applying the trail to a database beside it."""
    return run(["apply", str(prefix), "--to", f"duckdb:{prefix.parent}/x.duckdb"])


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command has printed, wherever it prints its notes."""
    return "".join(capsys.readouterr())


def notices_of(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    """Return the logged notices with this part."""
    return [one.getMessage() for one in caplog.records if part in one.getMessage()]


MISSING: Final = {
    "the last file": ((2,), "the manifest lists ot000000002, but the file is missing"),
    "the last two": ((1, 2), "the manifest lists ot000000001 to ot000000002, but 2 files are missing"),
    "the first file": ((0,), "the manifest lists ot000000000, but the file is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISSING)
def test_a_view_has_one_notice_of_missing_files(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    numbers, expected = MISSING[name]
    prefix = with_manifest(write_trail(tmp_path / "ot", THREE))
    views: tuple[Callable[[], object], ...] = (
        lambda: read_trail(prefix).read_all(),
        lambda: read_trail(prefix, records="all").read_all(),
        lambda: query(f"SELECT count(*) FROM '{prefix}'").read_all(),
        lambda: run(["show", str(prefix), "--format", "csv"]),
        lambda: read_trail(prefix, from_csn="1000").read_all(),
    )
    for view in views:
        view()
    assert notices_of(caplog, "manifest") == []
    remove(*numbers)(prefix)
    # The first files may have been purged.
    assert check_trail(str(prefix)).whole == (name == "the first file")
    for view in views:
        caplog.clear()
        view()
        assert len(notices_of(caplog, expected)) == 1


@pytest.mark.parametrize("name", ["the last file", "the last two"])
def test_operations_are_not_passed_on_if_the_last_files_are_missing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers, expected = MISSING[name]
    prefix = with_manifest(write_trail(tmp_path / "ot", THREE))
    remove(*numbers)(prefix)
    for passes_on in (apply, publish):
        assert passes_on(prefix) == 1
        text = printed(capsys)
        assert f"error: {expected}" in text
        assert "Restore the file. trailgate check" in text
    stream = TrailStream(lambda: find_trail(prefix))
    with pytest.raises(StorageError, match=expected):
        stream.latest(stream.initial(EARLIEST))
    assert landed(f"duckdb:{tmp_path}/x.duckdb") == []


def test_files_that_are_applied_may_be_purged(tmp_path: Path) -> None:
    """The manifest still lists them; only those after the position must exist."""
    prefix, to = write_trail(tmp_path / "ot", THREE), f"duckdb:{tmp_path}/x.duckdb"
    with_manifest(prefix)
    apply_trail(prefix, to)
    remove(0, 1)(prefix)
    assert apply_trail(prefix, to).notices == ()
    assert landed(to) == keys(range(30))


def test_a_group_does_not_pass_missing_files(tmp_path: Path) -> None:
    prefix, to = write_trail(tmp_path / "ot", THREE[:2]), f"duckdb:{tmp_path}/x.duckdb"
    apply_trail(prefix, to)
    with_manifest(write_trail(prefix, [*THREE, transaction(40)]))
    remove(0, 2, 3)(prefix)
    with pytest.raises(StorageError, match="the manifest lists ot000000002 to ot000000003"):
        apply_trail(prefix, to)
    assert landed(to) == keys(range(20))


def test_a_file_that_is_published_during_the_listing_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = with_manifest(write_trail(tmp_path / "ot", THREE))
    last = path_of(prefix, 2)
    hidden = last.rename(tmp_path / "hidden")

    def publish_meanwhile(*given: Any) -> Any:
        hidden.rename(last)
        return read_manifest(*given)

    monkeypatch.setattr("trailgate.storage.files.trail_files.read_manifest", publish_meanwhile)
    trail = find_trail(prefix)
    assert [file.number for file in trail.files] == [0, 1, 2]
    assert trail.missing == ()


def test_a_file_that_is_purged_during_the_listing_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = write_trail(tmp_path / "ot", THREE)

    def purge_meanwhile(path: Any) -> Any:
        listing = list_trail(path)
        path_of(prefix, 0).unlink(missing_ok=True)
        return listing

    monkeypatch.setattr("trailgate.storage.files.trail_files.list_trail", purge_meanwhile)
    assert [file.number for file in find_trail(prefix).files] == [1, 2]


def test_a_single_file_does_without_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = with_manifest(write_trail(tmp_path / "ot", THREE))
    assert read_trail(path_of(prefix, 0)).read_all().num_rows == len(keys(range(10)))
    assert caplog.records == []


SIZES: Final[dict[str, tuple[Change, str, int]]] = {
    "a transaction is cut off": (
        cut(2, len(b"".join(transaction(29)))),
        r"ot000000002: the file has [\d,]+ bytes, [\d,]+ fewer than its header states",
        -1,
    ),
    "a transaction is added": (
        append(2, *transaction(30)),
        r"ot000000002: the file has [\d,]+ bytes, [\d,]+ more than its header states",
        1,
    ),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_file_of_another_size_than_its_header_states_is_named(
    name: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change, expected, more = SIZES[name]
    # The header of a file states its size when another one follows.
    prefix = write_trail(tmp_path / "ot", [*THREE, []])
    remove(3)(prefix)
    to = f"duckdb:{tmp_path}/x.duckdb"
    assert apply_trail(prefix, to, group="earlier", dry_run=True).notices == ()
    change(prefix)

    assert read_trail(prefix).read_all().num_rows == len(keys(range(30 + more)))
    assert len([one for one in caplog.messages if re.search(expected, one)]) == 1
    assert [one.kind for one in check_trail(str(prefix)).findings if "size" in one.kind]
    for passes_on in (apply, publish):
        assert passes_on(prefix) == 4
        assert re.search(expected, printed(capsys))
    assert landed(to) == keys(range(30 + more))
    for shows in (["analyze"], ["redact", "--to", str(tmp_path / "copy")]):
        assert run([shows[0], str(prefix), *shows[1:]]) == 0
        error = capsys.readouterr().err
        assert len(re.findall(expected, error)) == 1
        assert f"trailgate check {prefix} lists the damage" in error


@pytest.mark.parametrize("name", SIZES)
def test_such_a_file_is_an_error_if_another_one_follows(name: str, tmp_path: Path) -> None:
    change, expected, _ = SIZES[name]
    prefix, to = write_trail(tmp_path / "ot", [*THREE, transaction(40)]), f"duckdb:{tmp_path}/x"
    change(prefix)
    with pytest.raises(StorageError, match=expected.partition(": ")[2]):
        apply_trail(prefix, to)
    assert publish(prefix) == 1


def test_an_empty_last_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A writer may have just created it, so it is no error."""
    prefix = write_trail(tmp_path / "ot", THREE[:2])
    path_of(prefix, 2).touch()
    for passes_on in (apply, publish):
        assert passes_on(prefix) == 0
        assert "ot000000002 is empty: its writer has not begun it yet" in printed(capsys)
    assert landed(f"duckdb:{tmp_path}/x.duckdb") == keys(range(20))
    for shows in (["analyze"], ["redact", "--to", str(tmp_path / "copy")]):
        run([shows[0], str(prefix), *shows[1:]])
        assert "ot000000002 is empty" in capsys.readouterr().err


def test_an_empty_file_before_another_one_is_an_error(tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "ot", THREE)
    write_nothing(1)(prefix)
    assert apply(prefix) == 1
    assert publish(prefix) == 1
    # Nothing of the trail but empty files: no transaction ends in it.
    write_nothing(0)(prefix)
    assert apply(prefix) == 1


def test_a_publication_without_the_first_files_exits_with_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = write_trail(tmp_path / "ot", THREE)
    remove(0)(prefix)
    for passes_on in (apply, publish):
        assert passes_on(prefix) == 4
        assert "the trail begins at file number 1" in printed(capsys)
    findings = [one for one in check_trail(str(prefix)).findings if one.kind == "first"]
    assert [one.file for one in findings] == ["ot000000001"]
    alone = check_trail(str(path_of(prefix, 1))).findings
    assert "first" not in [one.kind for one in alone]
