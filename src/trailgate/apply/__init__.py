"""Apply the operations of a trail to tables.

``effects`` computes which rows change, ``targets`` writes them (DuckDB, Delta, PostgreSQL,
Parquet), and ``jobs`` runs batches, stores checkpoints and writes discarded operations to a file.
``replicat`` parses parameter files, and ``commands`` is the command line.
"""
