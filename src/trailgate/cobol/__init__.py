"""COBOL: copybooks, the values of their items, and the records that they lay out."""
