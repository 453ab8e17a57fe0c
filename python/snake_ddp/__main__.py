"""`python -m snake_ddp train …`: the command snake_ddp."""

from .program import main

main()
