"""Files that ``toolwire example`` writes: each is a toolkit that can be served as it is."""
