"""Thousands of real OpenAPI documents as tools: ``make corpus``, then ``make test-corpus``."""
