"""The HTTP endpoints of the hub, one module per subject."""
