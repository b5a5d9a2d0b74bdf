"""JSON text, and GoldenGate's messages in it."""
