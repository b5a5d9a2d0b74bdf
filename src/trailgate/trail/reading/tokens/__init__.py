"""The tokens of records: those of transactions, users' own, and what headers mark."""
