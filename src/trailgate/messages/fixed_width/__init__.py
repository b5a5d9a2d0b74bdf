"""Fixed-width messages: options and layouts, cells, records, columns."""
