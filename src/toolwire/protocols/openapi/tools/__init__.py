"""The operations of a document as tools: names, arguments, schemas, hints."""
