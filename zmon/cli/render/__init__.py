"""The terminal output of the subcommands, one module per subject. Pure: data in, text out."""
