"""Apply the operations of a trail to tables.

``effects`` computes which rows change, ``targets`` writes them (DuckDB, Delta, Iceberg, PostgreSQL,
Parquet), and ``jobs`` runs batches, stores checkpoints and writes discarded operations to a file.
``replicat`` parses Replicat parameter files, ``spark`` applies with a Spark session, and
``commands`` is the command line.
"""
