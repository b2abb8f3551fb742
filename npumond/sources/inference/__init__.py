"""Latency and success of inference on the node; what its three kinds of sources share lies here."""
