"""Read trail bytes as operations with column values, or as a table with one row per record."""
