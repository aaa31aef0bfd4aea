"""``x-llm`` for existing web applications: one module for each framework, which alone imports it."""
