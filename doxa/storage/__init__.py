"""Storage: model folders, and vectors for other tools."""
