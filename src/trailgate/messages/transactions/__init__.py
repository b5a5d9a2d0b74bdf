"""Operations of messages put into transactions, and what each carries."""
