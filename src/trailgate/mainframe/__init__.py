"""Files of fixed-width records: read, convert, write, edit and verify them."""
