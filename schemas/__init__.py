"""Typed values: agents' answers, the rules' records, the shared state, settings, the output."""
