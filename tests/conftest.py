"""What all tests share: the profiles of the laws, and the width of the terminal.

Laws are judged by what they find, not by how busy the machine is. ``--hypothesis-profile=fast`` tries a tenth of the
examples, for the inner loop; ``make test`` and continuous integration try all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from laws import FAST, FULL
from s3_server import Bucket, S3Server, serving
from trailgate.columnar.kernels import compiled

# At a desk each run tries other examples; continuous integration tries the same ones again, so that a change is
# judged by what it changed.
for name, count in {"full": FULL, "fast": FAST}.items():
    settings.register_profile(
        name,
        deadline=None,
        max_examples=count,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        derandomize="CI" in os.environ,
    )
settings.load_profile("full")

if os.environ.get("NUMBA_BOUNDSCHECK") == "1":
    # Bounds are checked in compiled loops: none is interpreted, however few its bytes are.
    setattr(compiled, "INTERPRETED", -1)  # noqa: B010  a constant to all but this run

# Java that starts quickly, and compiles little of what runs for seconds: for the programs that tests start too.
os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ["COLUMNS"] = "140"  # tables are printed for this width, whatever the terminal is


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Give a server of S3's protocol, which runs while the tests do."""
    with serving() as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server) -> Bucket:
    """Give a bucket of the test's own."""
    return Bucket(s3_server)
