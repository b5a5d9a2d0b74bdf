"""Open files of records and files of rows, and divide them into splits."""
