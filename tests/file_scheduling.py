"""Distribution of short tests to the processes of a run: file by file, so that a test costs no message of its own.

A message for each test costs as much as many of the tests take, and more the more tests there are.
"""

from __future__ import annotations

from xdist.scheduler import LoadGroupScheduling


class FileScheduling(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each process complete files, those with the most tests first; a group of tests in several files stays together."""

    def _split_scope(self, nodeid: str) -> str:
        """Return the group of a test, or its file if it has none."""
        return str(super()._split_scope(nodeid)).partition("::")[0]
