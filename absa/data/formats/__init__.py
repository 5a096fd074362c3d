"""One module per format: each has a `looks_like` and a `read`. See `registry` for the table."""
