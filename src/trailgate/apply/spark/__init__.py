"""Apply on Spark: tasks that read trails, a sink for streams, and targets that the Spark session writes."""

import trailgate.spark  # noqa: F401  raises MissingDependencyError if PySpark is not installed
