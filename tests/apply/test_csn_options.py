"""Options of apply that are CSNs: a value that no CSN of the trail can be compared with is refused before anything is applied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from apply.test_changing_trails import THREE, keys, landed, write_trail
from raw_trail import inserts
from sample_trail import DEFINITIONS
from trailgate import OptionError, apply_trail, read_trail
from trailgate.apply.jobs.frames import FrameApplier
from trailgate.apply.jobs.options import OPTIONS, ApplyOptions
from trailgate.cli.main import run
from trailgate.model.operations_table import from_operations
from trailgate.model.positions import short_position
from trailgate.storage.files.trail_files import find_trail

NAMES: Final = tuple(ApplyOptions().csn_limits)
NO_NUMBERS: Final = ("abc", "10_000", "-1", "1009.5", "\uff11\uff10")


def stating(name: str, value: str) -> Any:
    """Return an option as the keyword arguments of a call."""
    return {name: value}


def by_python(prefix: Path, to: str, name: str, value: str) -> None:
    apply_trail(prefix, to, **stating(name, value))


def by_command(prefix: Path, to: str, name: str, value: str) -> None:
    assert run(["apply", str(prefix), "--to", to, f"--{name.replace('_', '-')}={value}"]) == 2
    raise OptionError("exit code 2")


def by_frame(prefix: Path, to: str, name: str, value: str) -> None:
    FrameApplier(to, read_options(name, value), str(prefix)).check(find_trail(prefix))


def by_frame_without_trail(prefix: Path, to: str, name: str, value: str) -> None:
    batches = [from_operations(one, DEFINITIONS) for one in read_trail(prefix)]
    FrameApplier(to, read_options(name, value), str(prefix)).apply(batches)


def read_options(name: str, value: str) -> ApplyOptions:
    return ApplyOptions(**OPTIONS.read({name: value}))


WAYS: Final[dict[str, Callable[[Path, str, str, str], None]]] = {
    "python": by_python,
    "command": by_command,
    "frame": by_frame,
    "frame without its trail": by_frame_without_trail,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_a_csn_of_the_trail_is_refused(
    name: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix, to = write_trail(tmp_path / "ot", THREE), f"duckdb:{tmp_path}/x.duckdb"
    for value in NO_NUMBERS:
        with pytest.raises(OptionError) as raised:
            WAYS[way](prefix, to, name, value)
        expected = f"{name} is {value!r}, but the CSNs of the trail are numbers such as 1000"
        assert expected in (capsys.readouterr().err or str(raised.value))
    with pytest.raises(OptionError) as raised:
        WAYS[way](prefix, to, name, "")
    assert "is empty" in (capsys.readouterr().err or str(raised.value))
    assert list(tmp_path.glob("x.duckdb*")) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_csn_that_the_trail_has_not_reached_is_a_notice(name: str, tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "ot", THREE)
    first, last = 1000, 1029
    for csn, is_reached in ((first, True), (last - 1, True), (last, False), (10**30, False)):
        to = f"duckdb:{tmp_path}/{csn}.duckdb"
        report = apply_trail(prefix, to, **stating(name, f"00{csn}"))
        expected = f"{name} is 00{csn}, and no transaction of the trail is after it: the last one has the CSN {last}"
        assert report.notices == (() if is_reached else (expected,))
        skipped = csn - first + 1 if name == "after_csn" else 0
        assert landed(to) == keys(range(skipped, 30))
        # A later run of the group has begun already.
        assert apply_trail(prefix, to, **stating(name, f"00{csn}")).notices == ()


@pytest.mark.parametrize("way", WAYS)
def test_operations_up_to_a_position_are_skipped(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix, to = write_trail(tmp_path / "ot", THREE), f"duckdb:{tmp_path}/x.duckdb"
    third = short_position(pa.Table.from_batches(read_trail(prefix))["position"][2].as_py())
    if way == "command":
        assert run(["apply", str(prefix), "--to", to, "--after", third]) == 0
    else:
        WAYS[way](prefix, to, "after", third)
    if way != "frame":  # that only checks
        assert landed(to) == keys(range(30))[3:]


@pytest.mark.parametrize("way", [one for one in WAYS if one != "frame without its trail"])
@pytest.mark.parametrize(
    ("value", "problem"),
    {"1": "is not a position", "7:0": "position 7:0 is after the trail's end, which is 2:"}.items(),
)
def test_what_is_not_a_position_of_the_trail_is_refused(
    value: str, problem: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix, to = write_trail(tmp_path / "ot", THREE), f"duckdb:{tmp_path}/x.duckdb"
    with pytest.raises(OptionError) as raised:
        WAYS[way](prefix, to, "after", value)
    assert problem in (capsys.readouterr().err or str(raised.value))


def test_text_csns_are_compared_as_text(tmp_path: Path) -> None:
    """Only a trail whose CSNs are numbers refuses other values."""
    prefix, to = tmp_path / "ot", f"duckdb:{tmp_path}/x.duckdb"
    records = [*inserts([1], tx=1), *inserts([2], tx=2)]
    records = [one.replace(b"1001", b"a:01").replace(b"1002", b"a:02") for one in records]
    write_trail(prefix, [records])
    apply_trail(prefix, to, after_csn="a:01")
    assert landed(to) == [2]
