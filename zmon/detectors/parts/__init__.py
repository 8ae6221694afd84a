"""Parts of the detectors, one task in each module. Some are shared by several detectors. Pure."""
