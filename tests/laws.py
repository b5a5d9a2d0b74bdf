"""How many examples a law is tried with: as many as it names under the profile ``full``, a part under ``fast``."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings

FULL: Final = 100
FAST: Final = 10
WHOLE: Final = "TRAILGATE_EVERY" in os.environ  # faults at every step, which takes many minutes


def examples(full: int) -> int:
    """Return the number of examples under the loaded profile of a law that needs ``full`` of them."""
    profile = settings.default
    assert profile is not None
    return max(5, full * profile.max_examples // FULL)


def stride(sampled: int) -> int:
    """Return at each how many steps a fault is tried: 1 with TRAILGATE_EVERY in the environment."""
    return 1 if WHOLE else sampled
