import os

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and the width of the terminal is read when doxa is imported
