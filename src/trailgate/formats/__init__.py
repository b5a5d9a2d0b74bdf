"""The formats of messages: in each, options, reader, writer and kernels."""
