"""Header fields of JSON messages: any member, by its name or the path to it."""

from __future__ import annotations

from dataclasses import dataclass

from trailgate.messages.properties.values import HeaderFields


@dataclass(frozen=True, slots=True)
class MemberPaths(HeaderFields):
    """Every name is that of a member: which ones there are is known by the messages alone."""

    def found(self, name: str) -> str | None:
        """Return the name itself."""
        return name
