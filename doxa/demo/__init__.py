"""The demo: train a model on the atlas, evaluate it and ask it questions."""
