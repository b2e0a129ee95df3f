"""A site's configuration: its mistakes, a first version, its node-hours."""
