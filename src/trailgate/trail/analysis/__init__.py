"""Every byte of a trail with what it means: tokens as a tree, their fields, and what makes no sense."""
