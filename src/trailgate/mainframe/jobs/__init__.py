"""Options and jobs of record files. Each job runs in one process, or in parts on Spark."""
