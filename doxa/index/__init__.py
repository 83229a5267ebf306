"""Answers over millions of entities without scoring each of them: cells of similar vectors, searched with faiss."""
