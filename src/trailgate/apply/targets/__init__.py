"""The targets of apply, one module per kind. A target knows its tables, types and commits, and nothing about trails."""
