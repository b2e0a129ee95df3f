"""Gates that keep a session of ReFrame from passing where it should not."""
