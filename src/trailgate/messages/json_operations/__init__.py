"""Operations as GoldenGate's JSON formatter writes them: read, and written."""
