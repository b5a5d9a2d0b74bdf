"""Debezium change events: reading them, inferring their tables, and writing them."""
