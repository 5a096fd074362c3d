"""How the analyzer plays each agent, from one shared analysis of the text."""
