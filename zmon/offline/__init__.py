"""Verdicts without a hub: step logs analysed and compared, commands run at several sizes, collectives timed."""
