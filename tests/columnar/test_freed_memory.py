"""Arrays of a batch reuse the memory of the batch before (decision 0155)."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ROUNDS = 20
PAGES = 1000  # of an array of 4 MB; a batch has several such arrays at a time
REUSED = f"""
import resource, sys
import numpy as np
if len(sys.argv) > 1:
    import trailgate.arrays

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def use():
    return [np.ones({PAGES} * 4096, np.uint8) for _ in range(8)]

use()
before = faults()
for _ in range({ROUNDS}):
    use()
print(faults() - before)
"""


def page_faults(*arguments: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", REUSED, *arguments], check=True, stdout=subprocess.PIPE
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other limits")
def test_freed_arrays_are_not_returned_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)

    assert page_faults("trailgate") < PAGES
    assert page_faults() > ROUNDS * PAGES
