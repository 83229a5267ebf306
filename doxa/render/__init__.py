"""Everything that is drawn: lines and tables for the terminal, plots, HTML pages. It reads results and never torch."""
