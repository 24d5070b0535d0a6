"""File formats: atomic writes, digests, and the one container of tensors; imports nothing of flowbert but errors."""
