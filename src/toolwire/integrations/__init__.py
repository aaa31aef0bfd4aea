"""``x-llm`` for web apps that already exist: one file for each framework, the only importer of it."""
