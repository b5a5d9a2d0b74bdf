"""What a change is: column types, tables, operations, positions. No bytes, no text."""
