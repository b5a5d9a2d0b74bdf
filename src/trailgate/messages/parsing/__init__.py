"""What all parsers share: messages in bulk, their records, metadata, and errors placed at them."""
