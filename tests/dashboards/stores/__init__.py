"""The same samples in Prometheus and in VictoriaMetrics, and the answers of both."""
