"""Records of COBOL as rows: the format ``copybook``, and a column of any DataFrame."""
