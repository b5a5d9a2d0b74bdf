"""Where a process holds files until they are in a store."""

from __future__ import annotations

import os
from typing import Final

OF_SPARK: Final = "SPARK_LOCAL_DIRS"  # set for the workers of Spark, for what they spill to disks


def scratch_folder() -> str | None:
    """Return the folder for temporary files; None: the system's.

    Workers of Spark have folders of their session's, on the disks that Spark is configured for. Spark deletes them when the session ends, so that nothing
    is left of a worker that was killed.
    """
    named = os.environ.get(OF_SPARK, "").split(",")
    there = [folder for folder in named if folder and os.access(folder, os.W_OK | os.X_OK)]
    return there[os.getpid() % len(there)] if there else None
