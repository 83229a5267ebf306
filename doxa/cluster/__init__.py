"""Ray: the connection to a cluster, and work on it in blocks whose results are files. The extra `doxa[cluster]`."""
