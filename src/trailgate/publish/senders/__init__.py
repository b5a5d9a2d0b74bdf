"""The destinations of published messages, one module for each."""
