"""Operations between text and types: the operations table, the typed shape, and the values of columns."""
