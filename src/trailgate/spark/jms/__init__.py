"""The format ``jms``: messages of a broker, or their operations, through a journal."""
