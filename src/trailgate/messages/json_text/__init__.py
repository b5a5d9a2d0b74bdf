"""JSON text: a compiled scanner of messages, what it finds, and how values are written."""
