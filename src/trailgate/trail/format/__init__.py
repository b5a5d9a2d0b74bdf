"""The trail format: tokens, the record layout, record types and the file header."""
