"""Who may call, and what each caller may see. Imports server.http."""
