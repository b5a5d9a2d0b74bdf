"""What all tests share: the profiles of the laws, and the width of the terminal.

Laws are judged by what they find, not by how busy the machine is. ``--hypothesis-profile=fast`` tries a tenth of the
examples, for the inner loop, ``quarter`` a quarter of them, for ``make test``; ``make test-servers`` and ``make test-all`` try all.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

from brokers.real_brokers import QUICK_JAVA, OneBroker
from laws import FAST, FULL, QUARTER, SEED_NAME, seed
from store_servers.azure import AzureServer
from store_servers.bucket import KINDS, Bucket, Server
from store_servers.google import GoogleServer
from store_servers.hdfs import HdfsServer
from store_servers.s3 import S3Server
from trailgate.columnar.compiling import checked_kernel

# At a desk each run tries other examples; continuous integration tries the same ones again, so that a change is
# judged by what it changed.
for name, count in {"full": FULL, "quarter": QUARTER, "fast": FAST}.items():
    settings.register_profile(
        name,
        deadline=None,
        max_examples=count,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        derandomize="CI" in os.environ,
    )
settings.load_profile("full")

seed()  # before the processes of a run start, which draw from the same one

if os.environ.get("NUMBA_BOUNDSCHECK") == "1":
    # Bounds are checked in compiled loops: none is interpreted, however few its bytes are.
    setattr(checked_kernel, "INTERPRETED", -1)  # noqa: B010  a constant to all but this run

if os.environ.get("TRAILGATE_COMPARED") == "1":
    from compared_loops import compare_calls

    compare_calls()

# All tests and what they import stay, and were searched for garbage again and again: a tenth of the processor time.
gc.set_threshold(20_000, 20, 50)

# Java that starts quickly, and compiles little of what runs for seconds: for the programs that tests start too.
os.environ["JDK_JAVA_OPTIONS"] = f"{QUICK_JAVA} -XX:+UseSerialGC"
os.environ["COLUMNS"] = "140"  # tables are printed for this width, whatever the terminal is


def _no_wait(_: int) -> None:
    """Do not wait for the disk: no test cuts the power, and a sync takes a millisecond or more. Which steps last is tried on ``failing_disk.py``."""


setattr(os, "fsync", _no_wait)  # noqa: B010  a function to all but tests

LINES, WIDTH = 10, 300  # what is shown of an error of the first try

ONLY_SERVERS = "servers"  # the expression of ``make test-servers``
SERVERS = frozenset(
    {"one_broker", "bucket", "s3_server", "azure_server", "gs_server", "hdfs_server"}
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that start a server: ``make test-servers`` runs these, those that take minutes first, and ``make test`` all others."""
    for item in items:
        if not SERVERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.servers)
    if config.option.markexpr == ONLY_SERVERS:
        items.sort(key=_order)


def _order(item: pytest.Item) -> tuple[bool, int]:
    """Return when a test is run: one that takes minutes would leave the other processes idle at the end. Groups keep their own order."""
    limit = item.get_closest_marker("timeout")
    if item.get_closest_marker("xdist_group") or limit is None:
        return item.get_closest_marker("slow") is None, 0
    return item.get_closest_marker("slow") is None, -limit.args[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute complete files; tests with servers one by one, since many take longer than a file."""
    if config.option.dist != "loadgroup" or config.option.markexpr == ONLY_SERVERS:
        return None
    from file_scheduling import FileScheduling  # noqa: PLC0415  a run may have no xdist

    return FileScheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """State the seed where something failed, and the errors of tests that passed when they ran once more (``--reruns``)."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.write_line(f"RERUN {report.nodeid}")
        errors = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
        for line in errors[:LINES]:
            terminalreporter.write_line(line[:WIDTH])
    if {"failed", "error"} & terminalreporter.stats.keys():
        terminalreporter.write_line(
            f"{SEED_NAME}={seed()} draws the places of faults as this run did"
        )


def serving(server: Server) -> Iterator[Any]:
    """Give a server that the environment of this process and its children names."""
    try:
        with patch.dict("os.environ", server.environment):
            yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Give a server of S3's protocol, which runs while the tests do."""
    yield from serving(S3Server())


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """Give a server of Azure's protocol, which runs while the tests do."""
    yield from serving(AzureServer(tmp_path_factory.mktemp("azurite")))


@pytest.fixture(scope="session")
def gs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    """Give a server of Google's protocol, which runs while the tests do."""
    yield from serving(GoogleServer(tmp_path_factory.mktemp("gcs")))


@pytest.fixture(scope="session")
def one_broker() -> Iterator[OneBroker]:
    """Give what starts a broker where none of its kind runs."""
    one = OneBroker()
    yield one
    one.close()


@pytest.fixture(scope="session")
def hdfs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """Give a cluster of Hadoop, which runs while the tests do."""
    yield from serving(HdfsServer(tmp_path_factory.mktemp("hdfs")))


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> Bucket:
    """Give a bucket of S3 of the test's own."""
    return Bucket(s3_server)


@pytest.fixture
def azure_bucket(azure_server: AzureServer) -> Bucket:
    """Give a container of Azure of the test's own."""
    return Bucket(azure_server)


@pytest.fixture
def hdfs_bucket(hdfs_server: HdfsServer) -> Bucket:
    """Give a folder of HDFS of the test's own."""
    return Bucket(hdfs_server)


@pytest.fixture(params=KINDS)
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """Give a bucket of the test's own, of each kind of store."""
    return Bucket(request.getfixturevalue(f"{request.param}_server"))
