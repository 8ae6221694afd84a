"""The dashboard: one page per question, from Prometheus and the hub. It shows findings and never judges itself."""
