"""HTTP for both sides: a server for the daemons, and a client that asks them."""
