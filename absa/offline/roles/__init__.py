"""How the analyser plays each agent, from one shared analysis of the text."""
