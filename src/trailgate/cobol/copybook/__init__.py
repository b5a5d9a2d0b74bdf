"""The text of a copybook to layouts: fields with their offsets and sizes."""
