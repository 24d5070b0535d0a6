"""Lightning data modules on one set of corpus options, with one seeded, resumable, length-aware sampler."""
