"""Sums over records: counts, tables, transactions."""
