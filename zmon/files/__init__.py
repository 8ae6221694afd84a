"""Files that outlive a daemon: written whole, by one daemon at a time, and deleted only while the clock is steady."""
