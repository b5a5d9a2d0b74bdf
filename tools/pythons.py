"""Try a built wheel on each Python that is here, with the newest packages that its bounds allow, and once with the oldest.

    .venv/bin/python tools/pythons.py [--oldest | --newest] [PYTHON...]

Without programs each Python of ``pyproject.toml``'s classifiers is looked for: on the path, in /usr/bin and in pyenv's folder. Those
that are not here are named. In an environment of its own each one captures 100,000 lines, so that loops are compiled,
compiles all other loops, and reads the trail by show, sql, check and Spark. What was tried is written to ``tests/versions.toml``.
"""

import argparse
import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "versions.toml"
HEAD = "# What was tried, and passed: written by tools/pythons.py. tests/test_versions.py compares the bounds of pyproject.toml with it.\n"
EXTRAS = ("duckdb", "spark", "jre")
LINES = 100_000
MINOR = "Programming Language :: Python :: 3."
# Their sources would need a compiler, and a release without a wheel for a Python is none for it.
WHEELS = "numba,numpy,llvmlite,pandas,pyarrow,duckdb"
NAMES = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

PROPERTIES = """\
parser.type=delim
delim.userdefs.tables=MY.TABLE
delim.userdefs.MY.TABLE.columns=ID,TEXT
delim.userdefs.MY.TABLE.ID=vchar 10
delim.userdefs.MY.TABLE.TEXT=vchar 40
delim.header=optype,tablename,ts
delim.optype=optype
delim.schemaandtable=tablename
delim.timestamp=ts
delim.timestamp.format=YYYY-MM-DD HH:MI:SS
delim.fielddelim=,
delim.quote="
delim.nullindicator=NULL
"""
COUNT = "SELECT count(*) AS rows, count(DISTINCT ID) AS ids FROM 'dirdat/ot:MY.TABLE'"
SPARK = """\
import trailgate.spark

spark = trailgate.spark.session("local[2]")
frame = spark.read.format("trail").option("table", "MY.TABLE").load("dirdat/ot")
assert frame.select("ID").distinct().count() == frame.count() == 100_000, frame.count()
spark.stop()
"""


def project() -> dict[str, Any]:
    """Return the project's metadata."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def requirements() -> list[Requirement]:
    """Return what the tried wheel asks for, with its extras."""
    named = project()
    extras = (named["optional-dependencies"][extra] for extra in EXTRAS)
    return [Requirement(text) for text in chain(named["dependencies"], *extras)]


def lowest(requirement: Requirement) -> str:
    """Return the oldest version that a requirement allows."""
    return next(part.version for part in requirement.specifier if part.operator == ">=")


def tried() -> list[dict[str, Any]]:
    """Return the rows of the table."""
    text = TABLE.read_text() if TABLE.exists() else ""
    rows: list[dict[str, Any]] = tomllib.loads(text).get("tried", [])
    return rows


def minors() -> list[str]:
    """Return the Pythons that the classifiers name, as 3.11."""
    named = [text for text in project()["classifiers"] if text.startswith(MINOR)]
    return sorted((text.rpartition(" ")[2] for text in named), key=Version)


def pythons() -> Iterator[str]:
    """Yield a program for each Python that is named and here; print the others."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for minor in minors():
        name = f"python{minor}"
        folders = [Path("/usr/bin"), *map(Path, os.get_exec_path()), Path("/usr/local/bin")]
        places = [*folders, *sorted(pyenv.glob(f"versions/{minor}.*/bin"))]
        found = next((str(p / name) for p in places if version_of(p / name).startswith(minor)), "")
        if found:
            yield found
        else:
            print(f"# Python {minor} is not here: name its program as an argument")


def version_of(program: Path | str) -> str:
    """Return the version of a Python; nothing where there is none."""
    code = "import platform; print(platform.python_version())"
    if not Path(program).is_file():
        return ""
    done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def pip(*arguments: str) -> None:
    """Run pip."""
    options = ["--disable-pip-version-check", "--quiet"]
    subprocess.run([sys.executable, "-m", "pip", *options, *arguments], env=NAMES, check=True)


def built(folder: Path) -> Path:
    """Return the wheel, built from a copy: files of earlier builds would get into it."""
    source = folder / "source"
    shutil.copytree(
        ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "*.so")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(source))
    return next(folder.glob("*.whl"))


def installed(python: str, wheel: Path, folder: Path, *, oldest: bool) -> Path:
    """Return the programs of a new environment with the wheel and all that it asks for."""
    made = folder / "environment"
    subprocess.run([python, "-m", "venv", "--without-pip", made], env=NAMES, check=True)
    versions = folder / "versions.txt"
    pins = [f"{one.name}=={lowest(one)}" for one in requirements()] if oldest else []
    versions.write_text("\n".join(pins))
    site = next(made.glob("lib/python*/site-packages"))  # Debian has ensurepip apart, if at all
    pip("install", "--target", str(site), "pip", "setuptools", "wheel")
    install = [str(made / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    options = ["--quiet", "--only-binary", WHEELS, "--constraint", str(versions)]
    subprocess.run([*install, *options, f"{wheel}[{','.join(EXTRAS)}]"], env=NAMES, check=True)
    return made / "bin"


def versions_in(programs: Path) -> dict[str, str]:
    """Return the versions of the packages that the wheel asks for."""
    names = sorted(canonicalize_name(one.name) for one in requirements())
    code = f"import json; from importlib.metadata import version; print(json.dumps({{n: version(n) for n in {names}}}))"
    done = subprocess.run([programs / "python", "-c", code], stdout=subprocess.PIPE, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def walk(programs: Path, folder: Path) -> None:
    """Capture lines and read them in every way; raises CalledProcessError and AssertionError."""
    (folder / "shop.properties").write_text(PROPERTIES)
    line = 'I,MY.TABLE,2026-01-05 09:00:00,{},"text, {}"\n'.format
    (folder / "lines.txt").write_text("".join(line(n, n) for n in range(LINES)))

    def run(*command: str) -> str:
        done = subprocess.run(
            [programs / command[0], *command[1:]],
            cwd=folder,
            env=NAMES,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout

    capture = ["--properties", "shop.properties", "--from", "lines.txt", "--message-per", "line"]
    run("trailgate", "capture", *capture, "--to", "dirdat/ot")
    loops = re.search(r"(\d+) found compiled", run("trailgate", "warm"))
    assert loops is not None
    assert int(loops[1]) > 0, "the capture compiled no loop"
    run("trailgate", "show", "dirdat/ot", "--table", "MY.TABLE", "--to", "table.csv")
    assert (folder / "table.csv").read_bytes().count(b"\n") == LINES + 1
    counted = json.loads(run("trailgate", "sql", COUNT, "--format", "json"))
    assert counted == {"rows": LINES, "ids": LINES}, counted
    run("trailgate", "check", "dirdat/ot")
    run("trailgate", "capture", "--help")
    typed(programs / "trailgate", folder)
    run("python", "-c", SPARK)


def typed(program: Path, folder: Path) -> None:
    """Print a record by Logdump on a terminal; raises AssertionError."""
    ours, terminal = pty.openpty()
    process = subprocess.Popen(
        [program, "logdump"],
        cwd=folder,
        env={**NAMES, "TERM": "xterm"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    os.write(ours, b"open dirdat/ot000000000\rn\rexit\r")
    shown = b""
    with contextlib.suppress(OSError):  # as a terminal ends
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert process.wait() == 0, shown.decode(errors="replace")
    assert b"MY.TABLE" in shown, shown.decode(errors="replace")


def trial(python: str, wheel: Path, *, oldest: bool) -> dict[str, Any] | None:
    """Return the row of what passed; print what did not."""
    begin, bounds = perf_counter(), "oldest" if oldest else "newest"
    print(f"# Python {version_of(python)}, {bounds} packages: {python}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            programs = installed(python, wheel, folder, oldest=oldest)
            versions = versions_in(programs)
            print(f"# {' '.join(f'{name} {version}' for name, version in versions.items())}")
            walk(programs, folder)
        except (subprocess.CalledProcessError, AssertionError) as error:
            print(f"# failed: {error}", flush=True)
            return None
    print(f"# passed in {perf_counter() - begin:.0f} s", flush=True)
    return {"python": version_of(python), "bounds": bounds, "versions": versions}


def key(row: dict[str, Any]) -> tuple[bool, Version]:
    """Return what there is one row for: the oldest packages, or a Python."""
    minor = ".".join(row["python"].split(".")[:2])
    return row["bounds"] == "newest", Version(minor if row["bounds"] == "newest" else "0")


def keep(row: dict[str, Any] | None) -> bool:
    """Write a row to the table, among those that it has; return whether there is one."""
    known = {key(each): each for each in [*tried(), *([row] if row else [])]}
    text = [HEAD]
    for _, one in sorted(known.items(), key=lambda each: each[0]):
        versions = "".join(f'{name} = "{value}"\n' for name, value in one["versions"].items())
        head = f'python = "{one["python"]}"\nbounds = "{one["bounds"]}"\n'
        text.append(f"\n[[tried]]\n{head}\n[tried.versions]\n{versions}")
    TABLE.write_text("".join(text))
    return row is not None


def main() -> int:
    """Try all; return 1 where one did not pass."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--oldest", action="store_true", help="with the oldest packages alone")
    only.add_argument("--newest", action="store_true", help="with the newest packages alone")
    options = parser.parse_args()
    named = [str(shutil.which(name) or name) for name in options.pythons] or list(pythons())
    trials = [(python, False) for python in named if not options.oldest]
    trials += [(named[0], True)] if named and not options.newest else []
    with tempfile.TemporaryDirectory() as folder:
        wheel = built(Path(folder))
        passed = [keep(trial(python, wheel, oldest=oldest)) for python, oldest in trials]
    return int(not all(passed))


if __name__ == "__main__":
    sys.exit(main())
