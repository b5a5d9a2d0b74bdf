"""Trails as they change in production, between the batches of an apply: every change is applied correctly, or an error or a notice names what is missing."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from apply.postgresql_server import running
from apply.test_redefinition import EVOLVED, write
from apply.test_redefinition import rows as rows_of_t
from laws import LONG, examples, histories, one_of
from raw_trail import abend, inserts
from sample_trail import DEFINITIONS
from trailgate import ApplyReport, TrailgateError, apply_trail, verify_tables
from trailgate.apply.commands import follow as apply_follow
from trailgate.apply.jobs.apply import ApplyRun
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.targets.sql import ADDED_COLUMNS
from trailgate.cli.main import run
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs.trail_check import check_trail
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header

TARGETS: Final = ("duckdb:{}/x.duckdb", "delta:{}/lake")
Place = tuple[int, int]


def transaction(number: int, size: int | None = None) -> list[bytes]:
    """Return the inserts of a transaction, whose keys no other one has."""
    return inserts([10 * number + i for i in range(size or 1 + number % 4)], tx=number)


def keys(numbers: Sequence[int]) -> list[int]:
    """Return the keys of transactions."""
    return [10 * number + i for number in numbers for i in range(1 + number % 4)]


def write_trail(
    prefix: Path, files: Sequence[Sequence[bytes]], first: int = 0, *, closed: bool = True
) -> Path:
    """Write files of records, each but the last with its size in its header; return the prefix."""
    for number, records in enumerate(files, first):
        info, body = TrailInfo(seqno=number, compatibility=3), b"".join(records)
        head = encode_header(FileHeader(trail=info))
        if closed and number - first < len(files) - 1:
            head = encode_header(FileHeader(trail=replace(info, file_size=0)))
            stated = replace(info, file_size=len(head) + len(body))
            head = encode_header(FileHeader(trail=stated))
        path_of(prefix, number).write_bytes(head + body)
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(DEFINITIONS))
    return prefix


def path_of(prefix: Path, number: int) -> Path:
    return Path(f"{prefix}{number:09}")


def flat(first: int, last: int) -> list[bytes]:
    """Return the records of transactions."""
    return [record for number in range(first, last) for record in transaction(number)]


def landed(to: str) -> list[int]:
    """Return the keys in the target's table."""
    scheme, _, path = to.partition(":")
    if scheme == "delta":
        if not Path(path, "my/orders").exists():
            return []
        return sorted(DeltaTable(f"{path}/my/orders").to_pyarrow_table()["id"].to_pylist())
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS own").fetchall()
        if not connection.sql("FROM duckdb_tables() WHERE table_name = 'orders'").fetchall():
            return []
        return sorted(key for (key,) in connection.sql("SELECT id FROM own.my.orders").fetchall())


THREE: Final = [flat(0, 10), flat(10, 20), flat(20, 30)]


def remove(*numbers: int) -> Callable[[Path], None]:
    def change(prefix: Path) -> None:
        for number in numbers:
            path_of(prefix, number).unlink()

    return change


def cut(number: int, size: int) -> Callable[[Path], None]:
    """Cut some bytes off a file's end."""

    def change(prefix: Path) -> None:
        path = path_of(prefix, number)
        path.write_bytes(path.read_bytes()[:-size])

    return change


def damage_length(
    number: int, transactions: tuple[int, int], length: int = 60_000
) -> Callable[[Path], None]:
    """Let the first record of the second transaction state a length; the first one is the first of the file."""

    def change(prefix: Path) -> None:
        path = path_of(prefix, number)
        data = bytearray(path.read_bytes())
        first, wanted = transactions
        at = data.index(transaction(first)[0]) + len(b"".join(flat(first, wanted)))
        assert data[at] == ord("G")
        data[at + 2 : at + 4] = struct.pack(">H", length)
        path.write_bytes(data)

    return change


def append(number: int, *records: bytes) -> Callable[[Path], None]:
    def change(prefix: Path) -> None:
        with path_of(prefix, number).open("ab") as file:
            file.write(b"".join(records))

    return change


def begin_file(number: int, size: int) -> Callable[[Path], None]:
    """Begin a file with so many bytes of a header."""

    def change(prefix: Path) -> None:
        head = encode_header(FileHeader(trail=TrailInfo(seqno=number, compatibility=3)))
        path_of(prefix, number).write_bytes(head[:size])

    return change


def rewrite(files: Sequence[Sequence[bytes]], first: int = 0) -> Callable[[Path], None]:
    """Write another trail under the prefix."""

    def change(prefix: Path) -> None:
        for old in prefix.parent.glob(f"{prefix.name}0*"):
            old.unlink()
        write_trail(prefix, files, first)

    return change


def exchange(one: int, other: int) -> Callable[[Path], None]:
    """Exchange the names of two files."""

    def change(prefix: Path) -> None:
        first, second = path_of(prefix, one), path_of(prefix, other)
        data = first.read_bytes()
        second.rename(first)
        second.write_bytes(data)

    return change


def copy(number: int, to: int) -> Callable[[Path], None]:
    """Copy a file to the name of another one."""

    def change(prefix: Path) -> None:
        path_of(prefix, to).write_bytes(path_of(prefix, number).read_bytes())

    return change


def both(*changes: Callable[[Path], None]) -> Callable[[Path], None]:
    def change(prefix: Path) -> None:
        for one in changes:
            one(prefix)

    return change


@dataclass(frozen=True)
class Case:
    """A trail, how much of it is applied before it changes, the change, and what a run states then.

    ``expected`` are the keys after that run. ``error`` and ``notice`` are what its text has; without an error the run ends well.
    """

    before: Sequence[Sequence[bytes]]
    change: Callable[[Path], None]
    expected: list[int]
    error: str = ""
    notice: str = ""


OTHER_FILE: Final = "the header states file number {}, but the name {}: another file of the trail was copied or renamed to this name"
NOTHING: Sequence[Sequence[bytes]] = ()
LONGER = [flat(0, 10), flat(10, 20), [*flat(20, 30), *flat(30, 34)]]
OTHER_CSNS = [[r.replace(b"10%02d" % n, b"20%02d" % n) for n in range(12) for r in transaction(n)]]
OTHER = [[r for n in range(40, 80) for r in transaction(n)]]
CASES: Final = {
    "grows in its last file": Case(
        THREE, append(2, *flat(30, 34)), keys(range(34))
    ),
    "first files purged before the first run": Case(
        NOTHING, rewrite(THREE[1:], 1), keys(range(10, 30)), notice="begins at file number 1: operations of earlier files are missing"
    ),
    "purged before the first run in a transaction": Case(
        NOTHING,
        rewrite([[*transaction(3)[1:], *flat(10, 20)]], 4),
        sorted([*keys([3])[1:], *keys(range(10, 20))]),
        notice="begins inside a transaction, at file number 4",
    ),
    "a file that was read to its end is purged": Case(
        THREE, both(append(2, *flat(30, 34)), remove(0, 1)), keys(range(34))
    ),
    "files purged before they were read": Case(
        THREE[:1], both(rewrite(THREE), remove(0, 1)), keys(range(10)),
        error=r"files number 0 to 1 are missing: the trail was read up to position 0:\d+, but now begins at file number 2 .*--after 0:\d+",
    ),
    "a gap before the first run": Case(
        NOTHING, both(rewrite(THREE), remove(1)), [], error="files are missing between ot000000000 and ot000000002: numbers 1 to 1"
    ),
    "a gap after the position": Case(
        THREE[:1], both(rewrite(THREE), remove(1)), keys(range(10)), error="files are missing between"
    ),
    "the last file removed": Case(
        THREE, remove(2), keys(range(30)), error=r"the trail was cut back, or another one was written: .* but ends at 1:\d+"
    ),
    "all files removed": Case(
        THREE, remove(0, 1, 2), keys(range(30)), error="no trail files here"
    ),
    "the last file cut before the position": Case(
        THREE, cut(2, 150), keys(range(30)), error="the trail was cut back, or another one was written"
    ),
    "a finished file cut where a record ends": Case(
        THREE[:1], both(rewrite(THREE), cut(1, len(transaction(19)[-1]))), keys(range(10)), error=r"the file has [\d,]+ bytes, 93 fewer than its header states\. .*Another file follows",
    ),
    "a finished file cut in a record": Case(
        THREE[:1], both(rewrite(THREE), cut(1, 20)), keys(range(10)), error="(ends inside a record|20 fewer than its header states)"
    ),
    "made again with fewer operations": Case(
        THREE, rewrite(OTHER[:1]), keys(range(30)), error="the trail was cut back, or another one was written"
    ),
    "made again with more operations": Case(
        [flat(0, 10)], rewrite(OTHER), keys(range(10)), error=r"another trail was written under this prefix: ot000000000 was applied up to byte \d+, CSN 1009, but"
    ),
    "made again with other CSNs alone": Case(
        [flat(0, 10)], rewrite(OTHER_CSNS), keys(range(10)), error="another trail was written under this prefix: .*, CSN 1009, but the CSN there is 2009 now"
    ),
    "a record is unfinished": Case(
        THREE, append(2, transaction(30)[0][:-5]), keys(range(30)), notice=r"\d+ bytes at the end of .*ot000000002 are not read: the record at byte \d+ is not complete"
    ),
    "a transaction is open": Case(
        THREE, append(2, *transaction(31)[:2]), keys(range(30)), notice=r"\d+ bytes from position 2:\d+ on are not read: their transaction has not ended"
    ),
    "an open transaction that a restart undid, and that comes again": Case(
        [*THREE[:2], [*THREE[2], *transaction(31)[:2]]], append(2, abend(), *transaction(31)), keys([*range(30), 31])
    ),
    "an unfinished record that is completed": Case(
        [*THREE[:2], [*THREE[2], transaction(30)[0][:-5]]], append(2, *[transaction(30)[0][-5:], *transaction(30)[1:]]), keys(range(31))
    ),
    "the last file begun again behind the position": Case(
        [*THREE[:2], [*THREE[2], *transaction(31)[:2]]], rewrite([*THREE[:2], [*THREE[2], *flat(30, 33)]]), keys(range(33))
    ),
    "a damaged length in the last file": Case(
        THREE[:2], both(rewrite(THREE), damage_length(2, (20, 24))), keys(range(24)),
        error=r"the record's length is damaged: it states 60000 bytes, but the file has only \d+ from here on: \d+ bytes cannot be read, and a record follows at byte \d+ .*ot000000002, byte \d+",
    ),
    "a damaged length in the first record": Case(
        NOTHING, both(rewrite(THREE[:1]), damage_length(0, (0, 0))), [], error="length is damaged"
    ),
    "a damaged length in the last file before the first run": Case(
        NOTHING, both(rewrite(THREE), damage_length(2, (20, 24))), keys(range(24)), error="length is damaged"
    ),
    "a damaged length in a finished file": Case(
        THREE[:1], both(rewrite(THREE), damage_length(1, (10, 14))), keys(range(10)), error="length is damaged"
    ),
    "a damaged length within the file": Case(
        THREE[:2], both(rewrite(THREE), damage_length(2, (20, 24), 100)), keys(range(20)), error="the record's trailer should be"
    ),
    "a damaged length of the last record": Case(
        THREE[:2], both(rewrite(THREE), damage_length(2, (20, 28)), cut(2, len(b"".join(flat(29, 30))))), keys(range(28)), notice="the record at byte .* is not complete"
    ),
    "the next file is empty yet": Case(
        THREE, begin_file(3, 0), keys(range(30)), notice="ot000000003 is empty: its writer has not begun it yet"
    ),
    "the next file has part of its header": Case(
        THREE, begin_file(3, 99), keys(range(30)),
        notice="99 bytes at the end of .*ot000000003 are not read: the record at byte 0 is not complete",
    ),
    "two files exchanged": Case(
        THREE[:1], both(rewrite(THREE), exchange(1, 2)), keys(range(10)), error=OTHER_FILE.format(2, 1)
    ),
    "two files exchanged before the first run": Case(
        NOTHING, both(rewrite(THREE), exchange(0, 1)), [], error=OTHER_FILE.format(1, 0)
    ),
    "a file copied over another one": Case(
        THREE[:1], both(rewrite(THREE), copy(1, 2)), keys(range(20)), error=OTHER_FILE.format(1, 2)
    ),
    "the first file copied over another one": Case(
        THREE[:1], both(rewrite(THREE), copy(0, 1)), keys(range(10)), error=OTHER_FILE.format(0, 1)
    ),
    "a file copied to the next number": Case(
        THREE, copy(1, 3), keys(range(30)), error=OTHER_FILE.format(1, 3)
    ),
    "files that are applied exchanged": Case(
        THREE, exchange(1, 2), keys(range(30)), error=OTHER_FILE.format(1, 2)
    ),
    "the end of the last file is blank": Case(
        THREE, append(2, bytes(50)), keys(range(30)), error="a record must begin with 47 01"
    ),
}  # fmt: skip
SAID_LATER: Final = {  # the batches before the damage may be applied, or not
    "a damaged length in the last file",
    "a damaged length in the last file before the first run",
    "a damaged length in a finished file",
    "a damaged length within the file",
    "a finished file cut in a record",
    "a finished file cut where a record ends",
    "a file copied over another one",
}


WAYS: Final = [(target, size) for target in TARGETS for size in (300, 1 << 20)]
CHOSEN: Final = [(name, *way) for name in CASES for way in one_of(WAYS, name)]


@pytest.mark.parametrize(("name", "target", "batch_bytes"), CHOSEN)
def test_a_changed_trail_is_applied_or_named(
    name: str, target: str, batch_bytes: int, tmp_path: Path
) -> None:
    case, to, prefix = CASES[name], target.format(tmp_path), tmp_path / "ot"
    if case.before:
        write_trail(prefix, case.before)
        apply_trail(prefix, to, batch_bytes=batch_bytes)
    case.change(prefix)

    if case.error:
        for _ in range(2):  # the same error again: nothing is ever taken as applied
            with pytest.raises(TrailgateError, match=case.error):
                apply_trail(prefix, to, batch_bytes=batch_bytes)
        rows = landed(to)
        if name in SAID_LATER:
            assert rows == keys(range(30))[: len(rows)]
        else:
            assert rows == case.expected
        if landed(to) and "a gap" not in name and "removed" not in name:
            with pytest.raises(TrailgateError):
                verify_tables(prefix, to)
        return
    done = apply_trail(prefix, to, batch_bytes=batch_bytes)
    assert landed(to) == case.expected
    _check_notices(done, case)
    again = apply_trail(prefix, to, batch_bytes=batch_bytes)
    assert (again.operations, landed(to)) == (0, case.expected)


def _check_notices(done: ApplyReport, case: Case) -> None:
    if case.notice:
        assert any(re.search(case.notice, notice) for notice in done.notices), done.notices
    else:
        assert done.notices == ()


def without_number(prefix: Path) -> Path:
    """Take the sequence number out of the headers of a trail's files."""
    for number, records in enumerate(THREE):
        info = TrailInfo(seqno=None, compatibility=3)
        head = encode_header(FileHeader(trail=info))
        path_of(prefix, number).write_bytes(head + b"".join(records))
    return prefix


@pytest.mark.parametrize("kind", ["renamed", "without a number"])
def test_files_that_do_not_contradict_their_names_are_applied(kind: str, tmp_path: Path) -> None:
    prefix, to = write_trail(tmp_path / "ot", THREE), TARGETS[0].format(tmp_path)
    if kind == "renamed":
        for file in tmp_path.glob("ot*"):
            file.rename(tmp_path / file.name.replace("ot", "copy"))
        prefix = tmp_path / "copy"
    else:
        without_number(prefix)
    apply_trail(prefix, to, batch_bytes=300)
    assert landed(to) == keys(range(30))
    assert verify_tables(prefix, to).is_equal
    assert not any(found.kind == "number" for found in check_trail(str(prefix)).findings)


@pytest.mark.parametrize("change", [exchange(1, 2), copy(1, 2)], ids=["exchanged", "copied"])
def test_every_view_names_a_file_that_is_another_one(
    change: Callable[[Path], None],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    prefix, to = write_trail(tmp_path / "ot", THREE[:1]), TARGETS[0].format(tmp_path)
    apply_trail(prefix, to)
    rewrite(THREE)(prefix)
    change(prefix)
    for view in ("--verify", "--status"):
        assert run(["apply", str(prefix), "--to", to, view]) == 1
        assert "header states file number" in capfd.readouterr().err
    caplog.clear()
    run(["show", str(prefix)])
    assert "header states file number" in caplog.text


def _older_duckdb(path: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS own").fetchall()
        connection.execute(
            "CREATE TABLE own.older AS SELECT grp, target, trail, position, csn, op_ts FROM own.trailgate_checkpoint"
        ).fetchall()
        connection.execute("DROP TABLE own.trailgate_checkpoint").fetchall()
        connection.execute(
            "CREATE TABLE own.trailgate_checkpoint (grp VARCHAR, target VARCHAR, trail VARCHAR, position VARCHAR, csn VARCHAR, op_ts BIGINT, PRIMARY KEY (grp, target))"
        ).fetchall()
        connection.execute("INSERT INTO own.trailgate_checkpoint FROM own.older").fetchall()
        connection.execute("DROP TABLE own.older").fetchall()


def _older_delta(path: str) -> None:
    state = DeltaTable(f"{path}/_trailgate/trailgate")
    rows = state.to_pyarrow_table().select(["trail", "position", "csn", "op_ts", "tables"])
    write_deltalake(state, rows, mode="overwrite", schema_mode="overwrite")


def _older_parquet(path: str) -> None:
    file = Path(path, "_trailgate/trailgate.json")
    state = json.loads(file.read_text())
    state["position"] = {
        name: state["position"][name] for name in ("trail", "position", "csn", "op_ts")
    }
    file.write_text(json.dumps(state))


def _older_postgresql(address: str) -> None:
    import psycopg  # noqa: PLC0415

    with psycopg.connect(f"postgresql:{address}") as connected:
        for name in ADDED_COLUMNS:
            connected.execute(f"ALTER TABLE trailgate_checkpoint DROP COLUMN {name}".encode())


OLDER: Final[dict[str, Callable[[str], None]]] = {
    "delta:{}/lake": _older_delta,
    "duckdb:{}/x.duckdb": _older_duckdb,
    "parquet:{}/files": _older_parquet,
    "postgresql": _older_postgresql,
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
        yield address


@pytest.mark.parametrize(
    "target",
    [pytest.param(one, marks=pytest.mark.servers) if one == "postgresql" else one for one in OLDER],
)
def test_a_checkpoint_of_an_earlier_version_is_continued_and_its_csn_compared(
    target: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    to = request.getfixturevalue("server") if target == "postgresql" else target.format(tmp_path)
    mode: Any = {"mode": "append"} if target.startswith("parquet") else {}
    prefix = write_trail(tmp_path / "ot", THREE[:1])
    apply_trail(prefix, to, **mode)
    rewrite(OTHER_CSNS)(prefix)
    OLDER[target](to.partition(":")[2])

    with pytest.raises(TrailgateError, match="CSN 1009, but the CSN there is 2009 now"):
        apply_trail(prefix, to, **mode)
    rewrite(THREE)(prefix)
    done = apply_trail(prefix, to, **mode)
    assert done.operations == len(keys(range(10, 30)))
    assert done.position is not None
    assert done.position.digest is not None
    assert done.position.reached is not None
    assert apply_trail(prefix, to, **mode).operations == 0
    remove(0, 1)(prefix)
    assert apply_trail(prefix, to, **mode).operations == 0


def test_a_file_that_existed_when_the_trail_was_read_last_is_named(tmp_path: Path) -> None:
    """Nothing of it was applied, so a writer may have taken it back; or it is lost."""
    to, prefix = f"duckdb:{tmp_path}/x.duckdb", tmp_path / "ot"
    write_trail(prefix, [*THREE[:2], transaction(21)[:1]])
    apply_trail(prefix, to, batch_bytes=300)
    assert apply_trail(prefix, to).operations == 0
    remove(2)(prefix)

    (notice,) = apply_trail(prefix, to).notices
    assert notice == "file number 2 existed when the trail was last read, but is missing now"


@pytest.mark.parametrize("target", TARGETS)
def test_the_advice_of_the_error_about_purged_files_works(target: str, tmp_path: Path) -> None:
    to, prefix = target.format(tmp_path), write_trail(tmp_path / "ot", THREE[:1])
    apply_trail(prefix, to)
    both(rewrite(THREE), remove(0, 1))(prefix)
    with pytest.raises(TrailgateError) as caught:
        apply_trail(prefix, to)
    stated = re.search(r"--group NAME --after (\d+:\d+)", str(caught.value))
    assert stated is not None

    done = apply_trail(prefix, to, group="later", after=stated[1])

    assert landed(to) == keys([*range(10), *range(20, 30)])
    assert "begins at file number 2" in done.notices[0]
    assert apply_trail(prefix, to, group="later", after=stated[1]).operations == 0


def test_file_numbers_that_wrap_are_a_gap(tmp_path: Path) -> None:
    """A number of six digits cannot grow: a writer stops at 999999 instead of beginning again at 0."""
    prefix, to = write_trail(tmp_path / "ot", THREE[:1], 999_999), f"duckdb:{tmp_path}/x.duckdb"
    path_of(prefix, 999_999).rename(f"{prefix}999999")
    apply_trail(prefix.with_name("ot999999"), to)
    write_trail(prefix, THREE[1:2])
    path_of(prefix, 0).rename(f"{prefix}000000")

    with pytest.raises(
        TrailgateError, match=r"missing between ot000000 and ot999999: numbers 1 to 999998"
    ):
        apply_trail(prefix, to)


@pytest.mark.parametrize("target", TARGETS)
def test_the_highest_file_number_is_stored(target: str, tmp_path: Path) -> None:
    to, prefix = target.format(tmp_path), write_trail(tmp_path / "ot", [flat(0, 5)], 999_999_999)
    apply_trail(prefix, to)
    append(999_999_999, *flat(5, 9))(prefix)

    assert apply_trail(prefix, to).operations == len(keys(range(5, 9)))
    assert landed(to) == keys(range(9))


@pytest.mark.parametrize("target", TARGETS)
def test_files_of_other_tables_alone_may_be_removed_when_they_are_read(
    target: str, tmp_path: Path
) -> None:
    """The position of the last operation stays in the first file, but what was reached does not."""
    other = [record.replace(b"MY.ORDERS", b"MY.OTHERS") for record in flat(10, 20)]
    to, prefix = target.format(tmp_path), tmp_path / "ot"
    write_trail(prefix, [flat(0, 10), other, other])
    apply_trail(prefix, to, tables=["MY.ORDERS"])
    remove(0, 1)(prefix)
    append(2, *flat(30, 33))(prefix)

    done = apply_trail(prefix, to, tables=["MY.ORDERS"])

    assert landed(to) == keys([*range(10), *range(30, 33)])
    assert done.notices == ()


def test_every_view_agrees_on_a_damaged_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to, prefix = f"duckdb:{tmp_path}/x.duckdb", write_trail(tmp_path / "ot", [flat(0, 10)])
    apply_trail(prefix, to)
    append(0, *flat(10, 20))(prefix)
    damage_length(0, (0, 14))(prefix)

    commands = {
        "apply": ["apply", str(prefix), "--to", to],
        "status": ["apply", str(prefix), "--to", to, "--status"],
        "verify": ["apply", str(prefix), "--to", to, "--verify"],
        "follow": ["apply", str(prefix), "--to", to, "--follow"],
        "dry run": ["apply", str(prefix), "--to", to, "--dry-run"],
        "show": ["show", str(prefix)],
        "records": ["show", str(prefix), "--records", "all"],
        "check": ["check", str(prefix)],
        "analyze": ["analyze", str(path_of(prefix, 0))],
        "sql": ["sql", f"SELECT count(*) FROM '{prefix}'"],
        "sql of a table": ["sql", f"SELECT count(*) FROM '{prefix}:MY.ORDERS'"],
        "publish": ["publish", str(prefix), "--to", str(tmp_path / "messages")],
        "Logdump's COUNT": ["logdump", str(path_of(prefix, 0)), "-c", "COUNT"],
        "Logdump's NEXT": ["logdump", str(path_of(prefix, 0)), "-c", "NEXT 99"],
        "Logdump's SCANFORENDTRANS": [
            "logdump",
            str(path_of(prefix, 0)),
            *(word for _ in range(20) for word in ("-c", "SFET")),
        ],
    }
    for name, command in commands.items():
        code = run(command)
        printed = capsys.readouterr()
        assert (
            "the record's length is damaged: it states 60000 bytes" in printed.out + printed.err
        ), name
        assert code == 1, name


MISSING_RECORDS: Final = {
    "the first": (transaction(14)[1:], "The transaction before it, tx9, begins at position 0:", 0),
    "the last": (
        transaction(15)[:-1],
        "The transaction before it, tx15, begins at position 0:",
        None,
    ),
}


@pytest.mark.parametrize("lost", MISSING_RECORDS)
def test_every_view_names_a_record_that_is_missing_in_a_transaction(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    lost: str,
) -> None:
    to, prefix = f"duckdb:{tmp_path}/x.duckdb", write_trail(tmp_path / "ot", [flat(0, 10)])
    apply_trail(prefix, to)
    rest, problem, row = MISSING_RECORDS[lost]
    rows = len(flat(0, 10)) + len(rest) + len(flat(16, 20))
    append(0, *rest, *flat(16, 20))(prefix)
    data = path_of(prefix, 0).read_bytes()
    place = f"{path_of(prefix, 0)}, byte {data.index((rest if row == 0 else flat(16, 17))[0])})"

    refused = {
        "apply": ["apply", str(prefix), "--to", to],
        "verify": ["apply", str(prefix), "--to", to, "--verify"],
        "follow": ["apply", str(prefix), "--to", to, "--follow"],
        "dry run": ["apply", str(prefix), "--to", to, "--dry-run"],
        "publish": ["publish", str(prefix), "--to", str(tmp_path / "messages")],
    }
    for name, command in refused.items():
        code = run(command)
        printed = capsys.readouterr()
        said = printed.out + printed.err
        assert "records are missing: " in said, name
        assert problem in said, name
        assert place in said, name
        assert f"trailgate check {prefix} --salvage OUT" in said, name
        assert code == 1, name
    assert landed(to) == keys(range(10))
    noticed = {
        "show": (["show", str(prefix)], ""),
        "file": (["show", str(prefix), "--to", str(tmp_path / "rows.parquet")], ""),
        "sql": (
            ["sql", f"SELECT count(*) AS n FROM '{prefix}'", "--format", "csv"],
            f"n\n{rows}\n",
        ),
    }
    for name, (command, output) in noticed.items():
        caplog.clear()
        assert run(command) == 0, name
        assert output in capsys.readouterr().out, name
        (notice,) = [one for one in caplog.messages if "records are missing" in one]
        assert problem in notice
        assert place in notice
    assert run(["check", str(prefix)]) == 1

    saved = str(tmp_path / "saved")
    assert run(["check", str(prefix), "--salvage", saved]) == 1
    done = apply_trail(saved, f"duckdb:{tmp_path}/y.duckdb")
    assert not done.notices
    # What continues the transaction before it makes that one doubtful too.
    sure = 9 if row == 0 else 10
    assert landed(f"duckdb:{tmp_path}/y.duckdb") == keys([*range(sure), *range(16, 20)])


def test_every_view_names_the_bytes_of_an_unfinished_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    to, prefix = f"duckdb:{tmp_path}/x.duckdb", write_trail(tmp_path / "ot", [flat(0, 10)])
    append(0, *transaction(11)[:2], transaction(11)[2][:-50])(prefix)
    apply_trail(prefix, to)
    torn = len(transaction(11)[2]) - 50

    for options in ([], ["--status"], ["--verify"], ["--dry-run"]):
        assert run(["apply", str(prefix), "--to", to, *options]) == 0
        printed = capsys.readouterr().out
        assert f"note: {torn} bytes at the end of" in printed, options
        assert "bytes from position 0:" in printed, options
        assert run(["apply", str(prefix), "--to", to, *options, "--json"]) == 0
        if options != ["--dry-run"]:
            assert len(json.loads(capsys.readouterr().out)["notices"]) == 2
        capsys.readouterr()
    for view in (["show", str(prefix)], ["sql", f"SELECT count(*) FROM '{prefix}'"]):
        caplog.clear()
        assert run(view) == 0
        logged = "".join(record.getMessage() for record in caplog.records)
        assert f"which is skipped ({torn} bytes)" in logged
        capsys.readouterr()
    assert run(["publish", str(prefix), "--to", str(tmp_path / "messages")]) == 0
    assert f"note: {torn} bytes at the end of" in capsys.readouterr().err
    for command in ("COUNT", "NEXT 99"):
        assert run(["logdump", str(path_of(prefix, 0)), "-c", command]) == 0
        assert f"{torn} bytes of an unfinished record" in capsys.readouterr().out


def test_a_position_of_another_trail_is_named_by_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to, prefix = f"duckdb:{tmp_path}/x.duckdb", write_trail(tmp_path / "ot", [flat(0, 10)])
    apply_trail(prefix, to)
    other = write_trail(tmp_path / "o2", [flat(0, 10)])

    assert run(["apply", str(other), "--to", to, "--status"]) == 0
    assert f"note: these positions are for {prefix}, not for {other}" in capsys.readouterr().out
    remove(0)(prefix)
    assert run(["apply", str(prefix), "--to", to, "--status"]) == 1
    printed = capsys.readouterr()
    assert "is applied up to position 0:" in printed.out
    assert "no trail files here" in printed.err


FOLLOWED: Final = {
    "a file that was read is removed": (remove(0), append(1, *flat(20, 24)), keys(range(24)), ""),
    "the last file is begun again behind the position": (
        append(1, *transaction(21)[:1]),
        rewrite([*THREE[:1], [*THREE[1], *flat(20, 24)]]),
        keys(range(24)),
        "",
    ),
    "the last file is removed": (append(1, *flat(20, 22)), remove(1), keys(range(22)), "was shortened"),
    "the trail is made again": (append(1, *flat(20, 22)), rewrite([flat(0, 10), flat(50, 90)]), keys(range(22)), "was rewritten"),
    "a file between is removed": (append(1, *flat(20, 22)), both(rewrite([*THREE, flat(30, 40)]), remove(2)), None, "files are missing"),
    "files are removed before they are read": (append(1, *flat(20, 22)), rewrite(THREE[2:], 2), None, "removed before it was read"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_trail_that_changes_while_it_is_followed(name: str, tmp_path: Path) -> None:
    """One run looks at the trail again and again, as ``--follow`` does."""
    first, second, expected, error = FOLLOWED[name]
    to, prefix = f"duckdb:{tmp_path}/x.duckdb", write_trail(tmp_path / "ot", THREE[:2])
    with ApplyRun(prefix, to, ApplyOptions()) as applied:
        assert applied.to_end().operations == len(keys(range(20)))
        first(prefix)
        list(applied.batches())
        second(prefix)
        if error:
            with pytest.raises(TrailgateError, match=error):
                list(applied.batches())
        else:
            list(applied.batches())
    assert landed(to) == (keys(range(22)) if expected is None else expected)


def test_bytes_that_wait_are_named_once_while_a_trail_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_follow, "REST_LOOK", 0.0)
    monkeypatch.setattr(apply_follow, "REST_WAITS", 0.0)
    to = f"duckdb:{tmp_path}/x.duckdb"
    prefix = write_trail(tmp_path / "ot", [[*THREE[1], *transaction(21)[:1]]], 1)
    with ApplyRun(prefix, to, ApplyOptions()) as applied:
        list(applied.batches())
        watch = apply_follow.UnappliedWatch(applied)
        first, waits = watch.due()
        assert "begins at file number 1" in first
        assert "their transaction has not ended" in waits
        assert watch.due() == ()
        append(1, *transaction(21)[1:])(prefix)
        list(applied.batches())
        assert watch.due() == ()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EVOLVED)
def test_a_definition_that_changes_between_two_runs(name: str, target: str, tmp_path: Path) -> None:
    to, (before, after, expected) = target.format(tmp_path), EVOLVED[name]
    write(tmp_path / "ot", before)
    apply_trail(tmp_path / "ot", to)
    write(tmp_path / "ot", before, after)
    apply_trail(tmp_path / "ot", to)

    assert rows_of_t(to) == expected
    assert verify_tables(tmp_path / "ot", to).is_equal


@dataclass
class Drawn:
    """A trail by chance: the bytes of its files, and of each record its file, its begin, its end, its transaction and its key."""

    files: list[bytes]
    records: list[tuple[int, int, int, int, int]]

    @classmethod
    def of(cls, rng: random.Random, folder: Path) -> Drawn:
        own: list[tuple[bytes, int, int]] = []
        for number in range(rng.randrange(3, 12)):
            rows = inserts([10 * number + i for i in range(rng.randrange(1, 5))], tx=number)
            if rng.random() < 0.2 and len(rows) > 1:
                own += [*((row, -1, -1) for row in rows[: len(rows) // 2]), (abend(), -1, -1)]
            own += [(row, number, 10 * number + i) for i, row in enumerate(rows)]
        ends = sorted(
            {*rng.sample(range(1, len(own)), min(len(own) - 1, rng.randrange(4))), len(own)}
        )
        parts = [own[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        prefix = write_trail(folder / "source", [[row for row, _, _ in part] for part in parts])
        files = [path_of(prefix, number).read_bytes() for number in range(len(parts))]
        records = []
        for number, (part, data) in enumerate(zip(parts, files, strict=True)):
            at = len(data) - sum(len(row) for row, _, _ in part)
            for row, tx, key in part:
                records.append((number, at, at + len(row), tx, key))
                at += len(row)
        return cls(files, records)

    def keys_up_to(self, end: Place) -> set[int]:
        """Return the keys of the transactions that end at a place or before it."""
        last = {tx: (file, stop) for file, _, stop, tx, _ in self.records}
        return {key for *_, tx, key in self.records if tx >= 0 and last[tx] <= end}

    def keys_in(self, files: range) -> set[int]:
        return {key for file, _, _, tx, key in self.records if tx >= 0 and file in files}


Files = dict[int, bytearray]


def _purge(rng: random.Random, files: Files, trail: Drawn) -> None:
    for number in range(rng.randrange(1, len(files)) if len(files) > 1 else 0):
        del files[number]


def _lose_one(rng: random.Random, files: Files, trail: Drawn) -> None:
    if len(files) > 1:
        del files[rng.choice(sorted(files)[1:])]


def _cut(rng: random.Random, files: Files, trail: Drawn) -> None:
    """Cut a file anywhere, or where a record ends."""
    number = rng.choice(sorted(files))
    data = files[number]
    ends = [end for file, _, end, *_ in trail.records if file == number and end <= len(data)]
    del data[rng.choice(ends) if ends and rng.random() < 0.5 else rng.randrange(len(data)) :]


def _blank(rng: random.Random, files: Files, trail: Drawn) -> None:
    data = files[max(files)]
    size = rng.randrange(1, min(200, len(data)))
    data[-size:] = bytes(size)


def _break_length(rng: random.Random, files: Files, trail: Drawn) -> None:
    places = [(file, at) for file, at, end, *_ in trail.records if end <= len(files.get(file, b""))]
    if places:
        file, at = rng.choice(places)
        files[file][at + 2 : at + 4] = struct.pack(">H", rng.choice([70, 200, 500, 5000, 60_000]))


def _break_frame(rng: random.Random, files: Files, trail: Drawn) -> None:
    places = [
        (file, at, end) for file, at, end, *_ in trail.records if end <= len(files.get(file, b""))
    ]
    if places:
        file, at, end = rng.choice(places)
        files[file][rng.choice([at, at + 1, end - 4, end - 1])] ^= 1 << rng.randrange(8)


def _nothing(rng: random.Random, files: Files, trail: Drawn) -> None:
    pass


CHANGES: Final = (_nothing, _nothing, _purge, _lose_one, _cut, _blank, _break_length, _break_frame)


@LONG
@settings(max_examples=histories(examples(24), full=1000))
@given(st.integers(0, 1 << 32))
def test_no_run_ends_well_without_a_word_and_rows_missing(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Between runs a trail grows, and then it is damaged, purged or cut by chance; what was damaged is put back later."""
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("trail")
    trail, prefix, to = Drawn.of(rng, folder), folder / "ot", f"duckdb:{folder}/x.duckdb"
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(DEFINITIONS))
    shown, before, lost = 0, set[int](), set[int]()
    total = sum(map(len, trail.files))
    for step in range(4):
        shown = total if step == 3 else rng.randrange(shown, total + 1)
        files = _revealed(trail, shown)
        change = rng.choice(CHANGES) if step < 3 else _nothing
        intact = {number: bytes(data) for number, data in files.items()}
        change(rng, files, trail)
        for old in folder.glob("ot0*"):
            old.unlink()
        for number, data in files.items():
            path_of(prefix, number).write_bytes(data)
        changed = files != intact
        end = max((number, len(data)) for number, data in files.items())
        words: tuple[str, ...] = ("an error",)
        try:
            words = apply_trail(prefix, to, batch_bytes=rng.choice([200, 1 << 20])).notices
        except TrailgateError:
            assert changed, "an error, and nothing is wrong"
        rows = set(landed(to))
        if not before and rows and min(files) > 0:
            lost = trail.keys_in(range(min(files)))
        assert before <= rows <= trail.keys_up_to(max((n, len(d)) for n, d in intact.items()))
        if not words:
            assert rows == trail.keys_up_to(end) - lost
            assert check_trail(str(prefix)).whole
        before = rows


def _revealed(trail: Drawn, size: int) -> Files:
    """Return the files of a trail as far as so many bytes of it go; the first one has at least its header."""
    files: Files = {}
    for number, data in enumerate(trail.files):
        first = next(at for file, at, *_ in trail.records if file == number)
        take = max(size, first) if not number else size
        if take <= 0:
            break
        files[number] = bytearray(data[:take])
        size -= len(data)
    return files
