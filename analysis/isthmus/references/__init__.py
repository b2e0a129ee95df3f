"""What figures are held to: a site's references, papers' figures, and the tree that sites are kept in."""
