"""Hold the values, types and rules that every protocol shares. Imports only the standard library; does no I/O."""
