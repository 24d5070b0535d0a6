"""The generator of the built-in sample's text: meanings, their wording, and a score of their likeness."""
