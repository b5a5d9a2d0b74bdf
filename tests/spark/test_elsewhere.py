"""Relative paths where Spark plans and works in other folders: on a cluster's workers, and over Spark Connect."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from capture_place import Place, row
from spark.whole_way import FOLDERS, WAYS

pytestmark = pytest.mark.servers  # clusters, and servers of Spark Connect
ROOT = Path(__file__).parents[2]
NEEDS_GRPC = pytest.mark.skipif(
    importlib.util.find_spec("grpc") is None, reason="Spark Connect needs grpcio"
)
COPYBOOK = "01 R.\n   05 ID PIC 9(4).\n"
SAME = {
    "captured": 3,
    "trail": 6,
    "frame": 3,
    "streamed": 3,
    "published": True,
    "streamed into a trail": 3,
    "messages": 3,
    "message frame": 3,
    "records": 2,
    "record frame": 2,
    "verified": 2,
    "applied": 3,
    "applied as a stream": 0,
    "written": 3,
    "based": "",
}


def whole_way(folder: Path, kind: str) -> dict[str, Any]:
    place = Place(folder)
    text = (folder / "p.properties").read_text()
    (folder / "p.properties").write_text(text.replace(f"{folder}/", ""))
    place.write(row(1), row(2), row(3))
    place.run("oa")
    (folder / "r.cpy").write_text(COPYBOOK)
    (folder / "one.dat").write_bytes("00010002".encode("cp037"))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
        "PYSPARK_PYTHON": sys.executable,
    }
    program = [sys.executable, str(Path(__file__).with_name("whole_way.py")), kind]
    done = subprocess.run(
        program, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=NEEDS_GRPC if kind == "connect" else ())
        for place, kind in WAYS
        if place == FOLDERS
    ],
)
def test_relative_paths_are_the_users(tmp_path: Path, kind: str) -> None:
    found = whole_way(tmp_path, kind)

    for name in ("unregistered", "unregistered properties"):
        error = found.pop(name)
        if kind == "connect":
            assert "is the working folder of Spark's process: use absolute paths" in error
        else:
            assert not error
    assert found == SAME
