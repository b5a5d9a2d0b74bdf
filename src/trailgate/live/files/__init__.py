"""The journal, which keeps received messages until they are captured."""
