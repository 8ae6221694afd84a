"""The commands `zmon drill`, `zmon scaling`, `zmon bench-comm` and `zmon bench-peak`, one file for each."""
