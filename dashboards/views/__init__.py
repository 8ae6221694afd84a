"""The pages of the dashboard: one page, or one part of a page, per file."""
