"""`python -m heaveto`."""

from .cli import main

main()
