"""Batches of messages, independent of their format: properties, records, transactions and parsing."""
