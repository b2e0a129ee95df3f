"""References that figures are compared with: a site's references, usual shares of limits, and the tree of sites."""
