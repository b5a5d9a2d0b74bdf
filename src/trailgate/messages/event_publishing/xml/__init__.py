"""XML publications: messages to operations, and operations to messages."""
