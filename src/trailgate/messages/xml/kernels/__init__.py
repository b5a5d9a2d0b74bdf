"""The compiled scanner of XML messages, and what places and copies the values that it finds."""
