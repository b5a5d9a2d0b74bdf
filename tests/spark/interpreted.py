"""Settings of sessions that interpret queries: Spark compiles Java for each new one, which takes longer than a few rows take."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

INTERPRETED: Final[Mapping[str, str]] = MappingProxyType(
    {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
)
