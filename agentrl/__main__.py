"""`python -m agentrl` is the command `agentrl`."""

from agentrl.cli import main

main()
