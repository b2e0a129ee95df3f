"""What a batch of page faults costs the driver."""
