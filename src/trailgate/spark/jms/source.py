"""The format ``jms``: messages of a broker, or their operations, through a journal.

``spark.readStream.format("jms").option("url", "stomp://broker/orders").load("dirdat/ot.journal")``.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from trailgate.spark.brief_errors import with_brief_errors
from trailgate.spark.jms.options import JmsOptions
from trailgate.spark.jms.tail import JmsTail


@with_brief_errors
class JmsSource(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    """Messages in the order in which they were received; with ``properties`` their operations."""

    folder: str | None = None  # that relative paths are from: register() sends the user's

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "jms"

    def schema(self) -> StructType:
        """Return the schema of messages, or of operations."""
        return from_arrow_schema(JmsOptions.of(self.options, self.folder).schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """Return the stream reader."""
        return JmsTail(JmsOptions.of(self.options, self.folder), schema)
