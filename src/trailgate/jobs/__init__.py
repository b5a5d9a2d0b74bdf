"""Complete jobs, such as capturing files or checking a trail, without a terminal or Spark."""
