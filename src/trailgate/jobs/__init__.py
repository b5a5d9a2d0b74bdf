"""Complete jobs, such as capturing files or checking a trail.

They need neither a terminal nor Spark.
"""
