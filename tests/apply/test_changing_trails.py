"""Trails as they change in production, between the batches of an apply: every change is applied correctly, or an error or a notice names what is missing."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apply.test_redefinition import EVOLVED, write
from apply.test_redefinition import rows as rows_of_t
from laws import examples, one_of
from raw_trail import abend, inserts
from sample_trail import DEFINITIONS
from trailgate import ApplyReport, TrailgateError, apply_trail, verify_tables
from trailgate.cli.main import run
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs.checking import check_trail
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


def rewrite(files: Sequence[Sequence[bytes]], first: int = 0) -> Callable[[Path], None]:
    """Write another trail under the prefix."""

    def change(prefix: Path) -> None:
        for old in prefix.parent.glob(f"{prefix.name}0*"):
            old.unlink()
        write_trail(prefix, files, first)

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


NOTHING: Sequence[Sequence[bytes]] = ()
LONGER = [flat(0, 10), flat(10, 20), [*flat(20, 30), *flat(30, 34)]]
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
        error=r"files number 0 to 1 are missing: the trail was read up to position 0:\d+, and now begins at file number 2 .*--after-csn 1009",
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
        THREE[:1], both(rewrite(THREE), cut(1, len(transaction(19)[-1]))), keys(range(10)), error=r"93 bytes are missing at the file's end: its header states [\d,]+, and another file follows",
    ),
    "a finished file cut in a record": Case(
        THREE[:1], both(rewrite(THREE), cut(1, 20)), keys(range(10)), error="(ends inside a record|missing at the file's end)"
    ),
    "made again with fewer operations": Case(
        THREE, rewrite(OTHER[:1]), keys(range(30)), error="the trail was cut back, or another one was written"
    ),
    "made again with more operations": Case(
        [flat(0, 10)], rewrite(OTHER), keys(range(10)), error=r"another trail was written under this prefix: ot000000000 was applied up to byte \d+, CSN 1009, and"
    ),
    "made again with other CSNs": Case(
        [flat(0, 10)], rewrite([[r for n in range(12) for r in inserts([10 * n + i for i in range(1 + n % 4)], tx=n + 100)]]), keys(range(10)), error="another trail was written under this prefix"
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
        error=r"the record's length is damaged: it states 60000 bytes, and the file has \d+ from here on: \d+ bytes cannot be read, and a record follows at byte \d+ .*ot000000002, byte \d+",
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
}  # fmt: skip
SAID_LATER: Final = {  # the batches before the damage may be applied, or not
    "a damaged length in the last file",
    "a damaged length in the last file before the first run",
    "a damaged length in a finished file",
    "a damaged length within the file",
    "a finished file cut in a record",
    "a finished file cut where a record ends",
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
    data = files[rng.choice(sorted(files))]
    del data[rng.randrange(len(data)) :]


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


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
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
