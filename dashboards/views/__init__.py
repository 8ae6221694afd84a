"""One page, or one part of a page, per file."""
