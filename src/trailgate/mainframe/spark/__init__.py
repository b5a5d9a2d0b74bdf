"""Record files on Spark: the format copybook, its sink, and jobs in tasks."""

import trailgate.spark  # noqa: F401  raises MissingDependencyError if PySpark is not installed
