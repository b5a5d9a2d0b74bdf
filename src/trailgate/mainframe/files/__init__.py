"""Open files of records and files of rows, in splits."""
