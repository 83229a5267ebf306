"""The routes of the server, one module per family."""
