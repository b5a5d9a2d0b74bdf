"""XML documents as trees, and rules applied to them: the general way."""
