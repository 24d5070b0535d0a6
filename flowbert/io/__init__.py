"""File formats: atomic writes, digests, JSON, and the one container of tensors; imports nothing of flowbert but errors."""
