"""Connect to servers: ``connect`` and the ``Remote`` it gives. Imports every other room of the client."""
