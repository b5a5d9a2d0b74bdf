"""Receive: messages of a broker to a trail, for as long as they come."""
