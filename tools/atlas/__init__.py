"""Building the atlas, the knowledge base of the demo."""
