"""Published scores of papers, and their reproduction."""
