"""Iceberg tables of catalogs of other kinds than SQL: by REST, and in Glue with a warehouse in S3; killed, and with a server that is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from apply.rest_catalog.rest_catalog import RestCatalog
from apply.sources import Rows, rows_by_id, write_log
from apply.test_delta_stores import applied
from apply.test_killed import APPLY, finish, killed
from laws import chance, kills
from oracles.apply_naive import Source
from store_servers.bucket import Bucket

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(900)]
TO = "iceberg:shop"
PATIENT = APPLY.replace("threads=1", "threads=1, patience=300")
TRANSACTIONS = 8  # each a commit of two tables, by several requests
KILLS = 3


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    """Give a REST catalog for all tests."""
    catalog = RestCatalog(tmp_path_factory.mktemp("rest"))
    yield catalog
    catalog.process.stop()


def in_s3(bucket: Bucket, **catalog: str) -> dict[str, str]:
    """Return a catalog with a warehouse in S3, whose logins are in the environment."""
    # pyiceberg's own reader of files does not look for the endpoint in the environment.
    endpoint = bucket.server.environment["AWS_ENDPOINT_URL"]
    return {**catalog, "warehouse": f"{bucket.url}/warehouse", "s3.endpoint": endpoint}


def configure(patch: pytest.MonkeyPatch, properties: Mapping[str, str]) -> None:
    """Name the catalog ``shop`` to the processes that this one starts."""
    for name, value in properties.items():
        patch.setenv(f"PYICEBERG_CATALOG__SHOP__{name.upper().replace('.', '__')}", value)


def stored_rows(properties: Mapping[str, str], namespace: str = "hr") -> Rows:
    table = load_catalog("shop", **properties).load_table(f"{namespace}.t")
    return rows_by_id(table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("kind", ["rest", "glue", "sql in S3"])
def test_a_catalog_of_each_kind_gets_each_change_once(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "rest":
        properties = request.getfixturevalue("rest").properties
    else:
        bucket = request.getfixturevalue("s3_bucket")
        by_sql = {"type": "sql", "uri": f"sqlite:///{tmp_path}/shop.db"}
        properties = in_s3(bucket, **({"type": "glue"} if kind == "glue" else by_sql))
    configure(monkeypatch, properties)
    own = chance(f"catalog {kind}")
    source = Source(own, keys=20)
    for _ in range(TRANSACTIONS):
        source.transaction()
    write_log(tmp_path / "ot", source.log)
    done = len(source.log)

    killed(own, tmp_path, TO, kills(2))
    assert stored_rows(properties) == source.rows
    for _ in range(TRANSACTIONS // 2):
        source.transaction()
    while len(source.log) == done:  # a transaction may find no row to change
        source.transaction()
    write_log(tmp_path / "ot", source.log[done:])
    printed = applied(tmp_path, TO)

    assert stored_rows(properties) == source.rows
    assert "operations applied up to position" in printed
    assert "hr.t" in applied(tmp_path, TO, "--status")
    assert "the rows match the trail" in applied(tmp_path, TO, "--verify")


def test_a_rest_catalog_that_is_killed_loses_and_doubles_nothing(
    rest: RestCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit whose answer is lost may have landed: the run reads the position again."""
    configure(monkeypatch, rest.properties)
    own = chance("killed catalog")
    source = Source(own, keys=20)
    for _ in range(2 * TRANSACTIONS):
        source.transaction()
    write_log(tmp_path / "ot", source.log)
    command = [sys.executable, "-c", PATIENT, str(tmp_path / "ot"), f"{TO}.cut", "200"]

    with subprocess.Popen(command) as run:
        for kill in range(KILLS):
            time.sleep(own.uniform(1, 4))
            # A run that is too quick for all kills has seen the first one.
            if run.poll() is None or not kill:
                rest.process.kill()
                rest.process.start()
        assert finish(run) == 0

    assert stored_rows(rest.properties, "cut.hr") == source.rows
