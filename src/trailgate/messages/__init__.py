"""Parse batches of messages into operations: the parts that all formats share."""
