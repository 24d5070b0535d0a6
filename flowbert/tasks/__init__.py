"""What a method is measured on: STS, retrieval, answer ranking, lexical similarity."""
