"""Grants, pending questions and the audit log."""
