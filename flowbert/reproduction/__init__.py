"""Published figures with their ambiguities, and their runs here."""
