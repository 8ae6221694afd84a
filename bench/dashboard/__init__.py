"""How soon the dashboard is there, of a job with a thousand ranks and six hours of history: `make bench-dashboard`."""
