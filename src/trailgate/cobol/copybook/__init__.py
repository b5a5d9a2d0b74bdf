"""Parse copybooks into layouts: trees of fields with offsets and sizes."""
