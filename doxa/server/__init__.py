"""The server: a model or a knowledge base over HTTP, for programs and for the page of curators."""
