"""Rendering: terminal, plots and HTML pages."""
