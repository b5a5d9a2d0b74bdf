"""The journal between a broker and a trail."""
