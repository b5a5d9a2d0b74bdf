"""What all tests share: laws are judged by what they find, not by how busy the machine is."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# At a desk each run tries other examples; continuous integration tries the same ones again, so that a change is
# judged by what it changed.
settings.register_profile(
    "laws",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("laws")
