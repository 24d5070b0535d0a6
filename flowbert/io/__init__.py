"""File formats: atomic writes, digests, JSON, the one container of tensors; imports nothing of flowbert but errors."""
