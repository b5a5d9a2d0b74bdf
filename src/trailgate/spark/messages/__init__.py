"""Messages as operations and operations as messages: formats, streams and DataFrames."""
