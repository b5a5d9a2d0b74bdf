"""Build what a release publishes, into ``dist``: the sdist, the wheel, and a bill of materials.

    make release

Each is built twice from a copy of the last commit: the wheel's bytes must be the same, and the metadata must be as PyPI wants them. The bill of
materials, in CycloneDX's form, is that of an environment with the wheel alone. Nothing is sent anywhere.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def run(*command: str | Path, folder: Path = ROOT, epoch: str = "") -> str:
    """Return what a program prints; raises CalledProcessError."""
    environment = {**os.environ, **({"SOURCE_DATE_EPOCH": epoch} if epoch else {})}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


def build(folder: Path, epoch: str) -> dict[str, Path]:
    """Return the files of a build of the last commit, by their names' endings."""
    source = folder / "source"
    source.mkdir(parents=True)
    archive = folder / "source.tar"
    run("git", "archive", "--output", archive, "HEAD")
    with tarfile.open(archive) as files:
        files.extractall(source, filter="data")
    run(sys.executable, "-m", "build", "--outdir", folder / "built", source, epoch=epoch)
    return {path.suffix: path for path in (folder / "built").iterdir()}


def list_materials(wheel: Path, folder: Path) -> Path:
    """Return the bill of materials of an environment that has the wheel and what it asks for."""
    made, listed = folder / "environment", folder / "trailgate.cdx.json"
    run(sys.executable, "-m", "venv", made)
    constraints = ROOT / "constraints.txt"
    run(made / "bin/python", "-m", "pip", "install", "--quiet", "-c", constraints, wheel)
    cyclonedx = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    run(*cyclonedx, "--output-file", listed, made / "bin/python")
    return listed


def main() -> int:
    """Build; return 1 where two builds of the wheel differ."""
    if changed := run("git", "status", "--porcelain", "--untracked-files=no"):
        print(f"# not in the release, since not committed:\n{changed}", file=sys.stderr)
    epoch = run("git", "log", "-1", "--format=%ct")
    with tempfile.TemporaryDirectory() as name:
        first, second = (build(Path(name) / each, epoch) for each in ("first", "second"))
        if first[".whl"].read_bytes() != second[".whl"].read_bytes():
            print("two builds of the wheel differ", file=sys.stderr)
            return 1
        run(sys.executable, "-m", "twine", "check", "--strict", *first.values())
        materials = list_materials(first[".whl"], Path(name))
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for path in (*first.values(), materials):
            shutil.copy(path, DIST)
    for path in sorted(DIST.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
