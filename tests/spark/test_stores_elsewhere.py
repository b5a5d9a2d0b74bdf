"""The whole way with all paths in a bucket, where Spark plans and works in other processes than the user's."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from capture_place import DEFINITIONS, PROPERTIES, row
from laws import one_of
from spark.whole_way import STORE, WAYS
from store_servers.bucket import KINDS as STORES
from store_servers.bucket import Bucket

pytestmark = pytest.mark.servers  # clusters, and servers of Spark Connect
ROOT = Path(__file__).parents[2]
NEEDS_GRPC = pytest.mark.skipif(
    importlib.util.find_spec("grpc") is None, reason="Spark Connect needs grpcio"
)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("store", "kind"),
    [
        pytest.param(store, kind, marks=NEEDS_GRPC if kind == "connect" else ())
        for place, kind in WAYS
        if place == STORE
        for store in one_of(STORES, "store elsewhere")
    ],
)
def test_the_whole_way(
    tmp_path: Path, request: pytest.FixtureRequest, store: str, kind: str
) -> None:
    bucket = Bucket(request.getfixturevalue(f"{store}_server"))
    bucket.put("dirdef/orders.def", DEFINITIONS)
    bucket.put("dirprm/p.properties", PROPERTIES.format(sourcedefs="dirdef/orders.def", more=""))
    for number in range(6):
        bucket.put(f"in/m{number}", row(number))
    login = bucket.server.environment
    environment = {
        **{name: value for name, value in os.environ.items() if name not in login},
        "S3_LOGIN": json.dumps(login),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
        "PYSPARK_PYTHON": sys.executable,
    }
    program = [sys.executable, str(Path(__file__).with_name("whole_way_stored.py")), kind]

    done = subprocess.run(
        [*program, bucket.url],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "capture": 6,
        "show": 6,
        "batch": [6, 6],
        "stream": 6,
        "stream_into_a_trail": 6,
        "write": 12,
    }
    assert [key for key in bucket.keys("dirdat/") if "/." in key] == []
    assert bucket.uploads() == []
