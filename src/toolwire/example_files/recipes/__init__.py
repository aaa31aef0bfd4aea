"""The recipes of the OpenTools proposal: a FastAPI app as one would write it anyway, and one call more."""
