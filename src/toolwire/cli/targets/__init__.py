"""What a user points a command at: a URL, a document, or Python code."""
