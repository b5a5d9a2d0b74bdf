"""A session for a user that the system does not know, as ``docker run --user 1000`` has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import trailgate

UID: Final = "45678"
SOURCES: Final = Path(trailgate.__file__).parents[1]
PATCH: Final = SOURCES / "trailgate/spark/unix_system/com/sun/security/auth/module"
SCRIPT: Final = """\
from trailgate.spark.local_session import session
spark = session("local[1]")
print(spark.range(3).count(), spark.sql("SELECT current_user()").collect()[0][0])
"""

pytestmark = pytest.mark.servers  # each starts a Java of its own


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as another user")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv, of util-linux")
@pytest.mark.parametrize("home", ["folder", "missing"])
def test_a_user_without_an_entry_gets_a_session(home: str, tmp_path: Path) -> None:
    # The folders of pytest and of root's Python are closed to others.
    readable = subprocess.run(
        ["setpriv", "--reuid", UID, "--clear-groups", "test", "-r", sys.prefix], check=False
    )
    if readable.returncode:
        pytest.skip("the environment is in a folder that others cannot read")
    folder = Path("/tmp") / f"trailgate-user-{os.getpid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    try:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(SOURCES),
            "HOME": str(folder if home == "folder" else tmp_path / "none"),
            "TMPDIR": str(folder),
        }
        done = subprocess.run(
            [
                "setpriv",
                "--reuid",
                UID,
                "--regid",
                UID,
                "--clear-groups",
                sys.executable,
                "-c",
                SCRIPT,
            ],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(folder)

    assert done.stdout == f"3 user{UID}\n", done.stderr


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs javac")
def test_the_class_is_that_of_its_source(tmp_path: Path) -> None:
    shutil.copy(PATCH / "UnixSystem.java", tmp_path)
    module = ["--patch-module", f"jdk.security.auth={tmp_path}"]
    options = ["-source", "17", "-target", "17", "-Xlint:-options", "-g:none", "-d", "out"]
    subprocess.run(["javac", *options, *module, "UnixSystem.java"], cwd=tmp_path, check=True)

    made = next(tmp_path.rglob("UnixSystem.class")).read_bytes()
    assert made == (PATCH / "UnixSystem.class").read_bytes()
