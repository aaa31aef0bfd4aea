"""Ask a user who is not at the terminal, in a browser or through a store. Imports no other room of the client."""
