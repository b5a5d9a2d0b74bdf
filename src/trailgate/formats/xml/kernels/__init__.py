"""The compiled loops of XML messages."""
