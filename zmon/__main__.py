"""`python -m zmon` is the `zmon` command."""

from zmon.cli import main

main()
