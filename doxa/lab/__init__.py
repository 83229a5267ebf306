"""The paper's tables, run again on real data and set beside the paper's own figures."""
