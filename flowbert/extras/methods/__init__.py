"""Sentence-BERT, masked language modelling, and further positives of SimCSE."""
