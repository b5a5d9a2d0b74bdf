"""What is typed and set: words, times, switches."""
