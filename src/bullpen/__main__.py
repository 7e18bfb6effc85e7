"""`python -m bullpen`."""

from bullpen.cli.main import main

main()
