"""How deep laws are tried: as many examples as a law names under the profile ``full``, and faults at places that chance draws.

``TRAILGATE_EVERY=1`` tries faults at every place and thousands of histories of each class, ``TRAILGATE_KILLS=20`` kills so often what is killed at any moment, and ``TRAILGATE_SEED`` draws
as a run before did: a run that fails states its seed. The seed is another one in each run, so that runs together try all places;
``.ci/run`` has one seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeVar

import pytest
from hypothesis import settings

FULL: Final = 100
QUARTER: Final = 25
FAST: Final = 10
WHOLE: Final = "TRAILGATE_EVERY" in os.environ
HISTORIES: Final = 5000  # of a class, with TRAILGATE_EVERY
KILLS: Final = int(os.environ.get("TRAILGATE_KILLS", "0"))
SEED_NAME: Final = "TRAILGATE_SEED"

LONG: Final = pytest.mark.timeout(0 if WHOLE else 300)

Place = TypeVar("Place")


def examples(full: int) -> int:
    """Return the number of examples under the loaded profile of a law that needs ``full`` of them."""
    profile = settings.default
    assert profile is not None
    return max(5, full * profile.max_examples // FULL)


def seed() -> int:
    """Return the seed of this run, which its other processes have too: they inherit it in the environment."""
    return int(os.environ.setdefault(SEED_NAME, str(random.randrange(1 << 32))))


def histories(usual: int, *, tests: int = 1, full: int = HISTORIES) -> int:
    """Return the number of histories that a test tries: ``usual``, or with TRAILGATE_EVERY its part of the ``full`` that all ``tests`` of its class try.

    Such a test has the mark ``LONG``.
    """
    return -(-full // tests) if WHOLE else usual


def chance(name: str) -> random.Random:
    """Return what a test draws from; ``name`` keeps it apart from others."""
    return random.Random(f"{seed()} {name}")


def kills(usual: int) -> int:
    """Return how often something is killed: ``usual``, or TRAILGATE_KILLS of the environment."""
    return KILLS or usual


def sampled(places: Sequence[Place], count: int, name: str) -> list[Place]:
    """Return ``count`` places in their order, all of them with TRAILGATE_EVERY: the first and the last, and one of each run between."""
    if WHOLE or len(places) <= count:
        return list(places)
    draw, inner = chance(name), len(places) - 2
    ends = [1 + inner * number // (count - 2) for number in range(count - 1)]
    between = [draw.randrange(begin, end) for begin, end in pairwise(ends)]
    return [places[at] for at in (0, *between, len(places) - 1)]


def one_of(choices: Sequence[Place], name: str) -> list[Place]:
    """Return one of some choices, all of them with TRAILGATE_EVERY."""
    return list(choices) if WHOLE else [chance(name).choice(choices)]
