"""What stands in a text: tokens, clauses, opinion words, noun phrases."""
