"""Tasks other than similarity: answer ranking, probing."""
