"""The generator of the built-in sample's text: meanings, their wording, their similarity."""
