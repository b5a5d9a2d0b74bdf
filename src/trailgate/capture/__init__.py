"""Messages to operations, and operations to messages: what formats and transactions make together."""
