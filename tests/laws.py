"""How many examples a law is tried with: as many as it names under the profile ``full``, a part under ``fast``."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

FULL: Final = 100
FAST: Final = 10


def examples(full: int) -> int:
    """Return the number of examples under the loaded profile of a law that needs ``full`` of them."""
    profile = settings.default
    assert profile is not None
    return max(5, full * profile.max_examples // FULL)
