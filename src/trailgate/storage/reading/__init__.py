"""Read trails, message files and files of records, in splits."""
