"""The targets of published messages, a folder or a broker, with one module for each."""
