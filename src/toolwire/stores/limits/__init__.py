"""Rate limit windows that several processes share."""
