"""What commands share: their options, printers and views, and the reading of standard input."""
