"""Commands: a docstring, an example and one library call each; `cli.py` puts them together."""
