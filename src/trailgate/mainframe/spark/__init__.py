"""Record files on Spark: the format ``copybook``, its writer, and jobs whose work is done by tasks."""

import trailgate.spark  # noqa: F401  raises MissingDependencyError if PySpark is not installed
