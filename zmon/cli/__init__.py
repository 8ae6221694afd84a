"""The `zmon` command: `main` has the group, each subcommand is a module, `render` is what a terminal shows."""
