"""Configuration of a site: finding its mistakes, writing a first version, estimating node-hours."""
