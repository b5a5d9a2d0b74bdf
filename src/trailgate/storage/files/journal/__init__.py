"""The journal: messages of a broker that were stored before they were acknowledged."""
