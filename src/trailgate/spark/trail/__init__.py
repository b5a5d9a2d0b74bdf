"""The format ``trail``: batch, stream and sink."""
