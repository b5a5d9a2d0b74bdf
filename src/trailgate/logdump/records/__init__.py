"""The records of one open trail file, in portions."""
