"""A session for a user that the system does not know, as ``docker run --user 1000`` has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import trailgate

UID: Final = "45678"
SOURCES: Final = Path(trailgate.__file__).parents[1]
PATCH: Final = SOURCES / "trailgate/spark/unix_system/com/sun/security/auth/module"
SCRIPT: Final = """\
from trailgate.spark.sessions import session
spark = session("local[1]")
rows = spark.range(3).mapInArrow(lambda batches: batches, "id bigint")  # by Python workers
print(rows.count(), spark.sql("SELECT current_user()").collect()[0][0])
"""
PACKAGES: Final = [folder for folder in sys.path if folder.endswith("-packages")]
AS_USER: Final = ("setpriv", "--reuid", UID, "--regid", UID, "--clear-groups", "env")

pytestmark = pytest.mark.servers  # each starts a Java of its own
only_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can run as another user, by setpriv of util-linux",
)


@pytest.fixture(scope="module")
def python() -> str:
    """Return a Python that the other user can run: this one, or the system's of the same version."""
    same = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for program in (sys.executable, f"/usr/bin/{same}", f"/usr/local/bin/{same}"):
        # Root's own Python is often in a folder that is closed to others.
        tried = subprocess.run([*AS_USER, program, "-c", ""], capture_output=True, check=False)
        if tried.returncode == 0:
            return program
    pytest.skip("no Python of this version that another user can run")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder for everybody: the folders of pytest are closed to others."""
    made = Path("/tmp") / f"trailgate-user-{os.getpid()}"
    made.mkdir(mode=0o777)
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


@only_root
@pytest.mark.timeout(600)  # two starts of Python without cached bytecode
@pytest.mark.parametrize("home", ["", "none"])
def test_a_user_without_an_entry_gets_a_session(home: str, python: str, folder: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(SOURCES), *PACKAGES]),
        "HOME": str(folder / home),
        "TMPDIR": str(folder),
    }
    done = subprocess.run(
        [*AS_USER, python, "-c", SCRIPT],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == f"3 user{UID}\n", done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs javac")
def test_the_class_is_that_of_its_source(tmp_path: Path) -> None:
    shutil.copy(PATCH / "UnixSystem.java", tmp_path)
    module = ["--patch-module", f"jdk.security.auth={tmp_path}"]
    options = ["-source", "17", "-target", "17", "-Xlint:-options", "-g:none", "-d", "out"]
    subprocess.run(["javac", *options, *module, "UnixSystem.java"], cwd=tmp_path, check=True)

    made = next(tmp_path.rglob("UnixSystem.class")).read_bytes()
    assert made == (PATCH / "UnixSystem.class").read_bytes()
