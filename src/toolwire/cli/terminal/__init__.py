"""What the command line prints and asks at a terminal."""
