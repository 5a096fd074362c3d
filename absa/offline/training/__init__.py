"""What `absa train` does: models of one's own labelled data, on top of the shipped ones."""
