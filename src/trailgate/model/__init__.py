"""The model that all formats share: column types, tables, and blocks of changes."""
