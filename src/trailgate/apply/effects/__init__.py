"""Which rows of tables change, decided from operations without touching a table."""
