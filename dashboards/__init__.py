"""What people look at: one page per question, over Prometheus and the hub; it shows verdicts and never makes one."""
