"""A writer that was broken off anywhere and goes on: nothing is lost and nothing is doubled."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import live_source
from failing_disk import FailingDisk, KilledError
from laws import chance, examples, kills, sampled
from live_source import SIZE, SMALL_SOURCE, expected, kept, large_source, write
from sample_trail import Op, Transaction
from trailgate.storage.live.live_trail import AppendOptions, Recovery
from trailgate.trail.writing.trail_format import TrailFormat

MODES = {
    **live_source.MODES,
    "overwrite": AppendOptions(Recovery.OVERWRITE, max_bytes=SIZE),
    "overwrite, new files": AppendOptions(Recovery.OVERWRITE, max_bytes=SIZE, new_file=True),
    "level 0": AppendOptions(trail_format=TrailFormat(0), max_bytes=600),
}


@pytest.fixture(params=MODES)
def options(request: pytest.FixtureRequest) -> AppendOptions:
    return MODES[request.param]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Path]:
    """Give one empty place after the other."""

    def each() -> Iterator[Path]:
        while True:
            folder = tmp_path / "place"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            yield folder / "ot"

    return each()


def broken_off(prefix: Path, options: AppendOptions, disk: FailingDisk, rows: int = 2) -> bool:
    """Write until the disk fails; return whether it did."""
    try:
        write(prefix, SMALL_SOURCE, options, rows, disk)
    except KilledError:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "part"), [(1, 0.4), (100, 0.0)])
def test_a_writer_killed_at_any_step_goes_on(
    places: Iterator[Path], options: AppendOptions, part: float, rows: int
) -> None:
    whole = FailingDisk()
    write(next(places), SMALL_SOURCE, options, rows, whole)
    assert whole.steps > 5

    for step in sampled(range(1, whole.steps + 1), 10, f"killed {options} {rows}"):
        prefix = next(places)
        killed = broken_off(prefix, options, FailingDisk(step, part), rows)
        assert killed or step == whole.steps
        write(prefix, SMALL_SOURCE, options, rows, FailingDisk())

        assert kept(prefix) == expected(SMALL_SOURCE, options), f"killed at step {step}"


@pytest.mark.slow
def test_a_writer_killed_at_any_step_of_its_recovery_goes_on(
    places: Iterator[Path], options: AppendOptions
) -> None:
    both = list(product((9, 14, 19, 26), range(1, 13)))
    for first, second in sampled(both, 12, f"recovery {options}"):
        prefix = next(places)
        broken_off(prefix, options, FailingDisk(first, 0.6))
        broken_off(prefix, options, FailingDisk(second, 0.5))
        write(prefix, SMALL_SOURCE, options, 2, FailingDisk())

        assert kept(prefix) == expected(SMALL_SOURCE, options), (
            f"killed at steps {first} and {second}"
        )


sources = st.lists(
    st.lists(
        st.tuples(st.sampled_from("IUD"), st.integers(0, 9), st.text("aG\x01Z", max_size=30)).map(
            lambda parts: Op(*parts, before="before")
        ),
        min_size=1,
        max_size=6,
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    source=sources,
    mode=st.sampled_from(sorted(MODES)),
    size=st.integers(1, 5000),
    crashes=st.lists(st.tuples(st.integers(1, 60), st.floats(0, 1)), max_size=4),
    rows=st.integers(1, 8),
    power=st.none() | st.randoms(use_true_random=False),
)
def test_any_crashes_leave_the_operations_of_a_run_without(
    tmp_path: Path,
    source: list[Transaction],
    mode: str,
    size: int,
    crashes: list[tuple[int, float]],
    *,
    rows: int,
    power: random.Random | None,
) -> None:
    options = replace(MODES[mode], max_bytes=size)
    folder = tmp_path / "place"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    prefix = folder / "ot"
    for step, part in crashes:
        disk = FailingDisk(step, part)
        try:
            write(prefix, source, options, rows, disk)
        except KilledError:
            if power is not None:
                disk.cut_power(power)
    write(prefix, source, options, rows, FailingDisk())

    assert kept(prefix) == expected(source, options)


@pytest.mark.servers  # kills processes
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["APPEND", "OVERWRITE"])
def test_a_process_that_is_killed_goes_on(tmp_path: Path, mode: str) -> None:
    prefix, moments = tmp_path / "ot", chance(mode)
    command = [sys.executable, str(live_source.__file__), str(prefix), mode, "400"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(kills(2)):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moments.uniform(0.02, 0.3))
            process.send_signal(signal.SIGKILL)
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)

    assert kept(prefix) == expected(large_source(400), AppendOptions())
