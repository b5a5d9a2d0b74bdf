"""Apply the operations of a trail to tables.

``effects`` works out which rows change, ``targets`` writes them (DuckDB, Delta, PostgreSQL,
Parquet), and ``jobs`` runs the whole: batches, checkpoints, discarded operations. ``replicat``
parses parameter files, and ``commands`` is the command line.
"""
