"""Records of isthmus-bench: what is one, reading them, one table of many, on what machine they were measured."""
