"""Configuration of a site: finding mistakes in it, writing a first version, and estimating node-hours."""
