"""Typed values: answers of agents, records of rules, the state, settings, and the output."""
