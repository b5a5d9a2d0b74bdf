"""Records of a layout: where they lie in a file, and their columns, both directions."""
