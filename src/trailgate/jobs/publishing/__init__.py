"""Publishing: the operations of a trail as messages."""
