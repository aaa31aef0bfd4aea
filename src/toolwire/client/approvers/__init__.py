"""Ways to ask a user who is not at the terminal: in a browser, or through a store. Imports client.transport."""
