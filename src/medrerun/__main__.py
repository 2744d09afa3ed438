"""Lets `python -m medrerun` do what the command `medrerun` does."""

from medrerun.main import main

main()
