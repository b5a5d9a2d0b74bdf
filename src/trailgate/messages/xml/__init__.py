"""XML messages: rules with paths find transactions, operations and columns in any document (capture properties §7)."""
