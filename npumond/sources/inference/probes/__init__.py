"""What requests of our own find."""
