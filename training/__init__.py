"""How the shipped models were made. `absa train` needs none of it, and no wheel has it."""
