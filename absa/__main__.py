"""`python -m absa`: the command line."""

from absa.cli import main

main()
