"""Receivers of messages from brokers: they receive and acknowledge, nothing else."""
