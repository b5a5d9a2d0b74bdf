"""The model that all formats share: column types, tables, and changes in bulk."""
