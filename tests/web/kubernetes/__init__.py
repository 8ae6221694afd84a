"""Tests of the client of the Kubernetes API."""
