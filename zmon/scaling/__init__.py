"""How long a step takes on other numbers of ranks, links or bytes. Pure."""
