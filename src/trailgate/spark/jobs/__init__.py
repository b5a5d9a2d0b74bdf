"""Jobs whose numbered tasks run on Spark."""
