"""Whether a trail is whole."""
