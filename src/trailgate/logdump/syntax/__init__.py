"""What a user types: command lines, arguments, names and values."""
