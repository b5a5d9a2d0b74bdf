"""Apply on Spark: reading in tasks, a sink for streams, and targets that the session writes."""

import trailgate.spark  # noqa: F401  raises MissingDependencyError if PySpark is not installed
