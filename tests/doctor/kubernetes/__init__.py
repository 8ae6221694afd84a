"""Tests of the checks of a Kubernetes cluster."""
