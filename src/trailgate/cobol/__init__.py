"""COBOL support: parse copybooks, convert the values of items, and read and write records."""
