"""The `zmon` command: `main` has the group, one module per subcommand, and `render/` makes the terminal output."""
