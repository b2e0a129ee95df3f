"""Records of isthmus-bench: validating and reading them, one table of many, and the machines they were measured on."""
