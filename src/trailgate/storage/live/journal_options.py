"""How many messages a journal remembers by their ids."""

from __future__ import annotations

from typing import Final

REMEMBERED: Final = 200_000  # messages: many times what brokers send ahead
LEAST_REMEMBERED: Final = 10_000  # fewer are not many times that
