"""What commands share: their options, their printers, and standard input."""
