"""Messages in bulk, their transactions, and the properties that describe them."""
