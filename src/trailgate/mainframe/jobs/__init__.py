"""Options and jobs of record files; each job runs in one process or in parts on Spark."""
