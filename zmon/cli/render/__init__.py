"""Everything a terminal shows, one module per subject. Data in, text out."""
