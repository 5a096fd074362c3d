"""How the models of the embedded analyser are made; nothing here is needed to use them."""
