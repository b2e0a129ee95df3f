"""Records of isthmus-bench: validating and reading them, a table of many records, and the machines of records."""
