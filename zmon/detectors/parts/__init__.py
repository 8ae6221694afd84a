"""What several detectors share: each module answers one question about a Snapshot. Pure."""
