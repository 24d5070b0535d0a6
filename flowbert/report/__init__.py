"""Results for people: terminal, Markdown, CSV."""
