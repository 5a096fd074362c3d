"""The learned models: the files of a model folder and the networks in them."""
