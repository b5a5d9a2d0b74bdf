"""Where published messages go: one module for each destination."""
