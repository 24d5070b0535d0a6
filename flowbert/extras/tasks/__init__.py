"""Other tasks: answer ranking, probing, wording, STS as PromptEOL prepares it."""
