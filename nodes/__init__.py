"""One module per agent or rule: a node reads the state and returns an update."""
