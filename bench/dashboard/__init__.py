"""The load times of the dashboard, for a job with a thousand ranks and six hours of history: `make bench-dashboard`."""
