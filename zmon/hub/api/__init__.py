"""What the hub answers over HTTP, one module per subject."""
