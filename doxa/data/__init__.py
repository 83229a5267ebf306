"""Data: beliefs, their vocabularies, known facts, splits and negatives."""
