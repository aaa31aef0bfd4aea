"""Back up, check and restore what a server stores."""
