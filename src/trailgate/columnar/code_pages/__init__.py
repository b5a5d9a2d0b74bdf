"""Code pages by name: bytes of a mainframe or database to UTF-8 and back, whole columns at once."""
