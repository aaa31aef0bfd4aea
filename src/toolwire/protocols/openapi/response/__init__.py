"""From an HTTP response to a result: JSON, text, streams, bounded sizes."""
