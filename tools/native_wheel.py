"""Add native loops to a pure wheel: ``native_wheel.py WHEEL EXTENSION FOLDER`` writes a wheel for this platform into a folder.

The new wheel has the extension that ``build_loops.py --trust`` made, and does not ask for numba. It suits Python 3.11 and all later
versions, on any Linux with glibc 2.17 or newer.
"""

import base64
import csv
import hashlib
import io
import platform
import re
import sys
import zipfile
from pathlib import Path

EXTENSION = "trailgate/_loops.abi3.so"
TAG = f"cp311-abi3-manylinux_2_17_{platform.machine()}"
MODE = 0o755 << 16  # of the extension, in a zip file's attributes


def changed(name: str, data: bytes) -> bytes:
    """Return a file of the wheel as the native one has it."""
    if name.endswith(".dist-info/WHEEL"):
        data = data.replace(b"Root-Is-Purelib: true", b"Root-Is-Purelib: false")
        return re.sub(rb"^Tag: .*$", f"Tag: {TAG}".encode(), data, flags=re.MULTILINE)
    if name.endswith(".dist-info/METADATA"):
        found = re.sub(rb"^Requires-Dist: numba\b[^;\n]*\n", b"", data, flags=re.MULTILINE)
        assert found != data, "the wheel does not ask for numba"
        return found
    return data


def record_of(files: dict[str, bytes], name: str) -> bytes:
    """Return the contents of RECORD: the digest and the size of each file."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for each, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([each, f"sha256={digest}", len(data)])
    rows.writerow([name, "", ""])
    return text.getvalue().encode()


def add_loops(wheel: Path, extension: Path, folder: Path) -> Path:
    """Write the native wheel into a folder; return its path. The same files give the same bytes."""
    with zipfile.ZipFile(wheel) as archive:
        infos = {info.filename: info for info in archive.infolist()}
        files = {name: changed(name, archive.read(name)) for name in infos}
    record = next(name for name in infos if name.endswith(".dist-info/RECORD"))
    del files[record]
    package = infos["trailgate/__init__.py"]
    added = zipfile.ZipInfo(EXTENSION, package.date_time)
    added.external_attr, added.compress_type = MODE, package.compress_type
    files = {EXTENSION: extension.read_bytes(), **files}
    files[record] = record_of(files, record)
    name, version, *_ = wheel.name.split("-")
    made = folder / f"{name}-{version}-{TAG}.whl"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in files.items():
            archive.writestr(infos.get(each, added), data)
    return made


if __name__ == "__main__":
    print(add_loops(*map(Path, sys.argv[1:])))
