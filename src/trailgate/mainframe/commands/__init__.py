"""The commands records and copybook."""
