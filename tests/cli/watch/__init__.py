"""Tests of `zmon watch`."""
