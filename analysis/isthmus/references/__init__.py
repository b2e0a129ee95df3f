"""References for figures: a site's references, usual shares of limits, and the tree of site configurations."""
