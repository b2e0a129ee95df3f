"""What keeps a session of ReFrame from passing where it should not."""
