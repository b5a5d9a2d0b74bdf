"""What all writers of publications share: their options, and the messages that they make."""
