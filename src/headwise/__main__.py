"""`python -m headwise`: the command line, for launchers that start modules (torchrun, accelerate launch)."""

from headwise.cli import main

main()
