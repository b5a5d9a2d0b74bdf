"""Build what a release publishes, into ``dist``: the sdist, a pure wheel, a wheel with native loops for this platform, and a bill of materials.

    make release

Each is built twice from a copy of the last commit: the wheels' bytes must be the same, and the metadata must be as PyPI wants them. The bill of
materials, in CycloneDX's form, is that of an environment with the pure wheel alone. Nothing is sent anywhere.

    tools/release.py --native    # the native wheel alone, for a machine of another kind
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from native_wheel import add_loops

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
    """Return the files of a build of the last commit: ``sdist``, ``pure`` and ``native`` (wheels)."""
    source = folder / "source"
    source.mkdir(parents=True)
    archive = folder / "source.tar"
    run("git", "archive", "--output", archive, "HEAD")
    with tarfile.open(archive) as files:
        files.extractall(source, filter="data")
    run(sys.executable, "-m", "build", "--outdir", folder / "built", source, epoch=epoch)
    (pure,), (sdist,) = ((folder / "built").glob(ending) for ending in ("*.whl", "*.tar.gz"))
    run(sys.executable, source / "tools/build_loops.py", "--trust", source / "src")
    native = add_loops(pure, source / "src/trailgate/_loops.abi3.so", folder / "built")
    return {"sdist": sdist, "pure": pure, "native": native}


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
    """Build; return 1 if two builds of a wheel differ."""
    if changed := run("git", "status", "--porcelain", "--untracked-files=no"):
        print(f"# not in the release, since not committed:\n{changed}", file=sys.stderr)
    epoch = run("git", "log", "-1", "--format=%ct")
    with tempfile.TemporaryDirectory() as name:
        first, second = (build(Path(name) / each, epoch) for each in ("first", "second"))
        for kind in ("pure", "native"):
            if first[kind].read_bytes() != second[kind].read_bytes():
                print(f"two builds of the {kind} wheel differ", file=sys.stderr)
                return 1
        run(sys.executable, "-m", "twine", "check", "--strict", *first.values())
        made = [first["native"]]
        if "--native" not in sys.argv[1:]:
            made = [*first.values(), list_materials(first["pure"], Path(name))]
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for path in made:
            shutil.copy(path, DIST)
    for path in sorted(DIST.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
