"""Pictures and pages: the report, and what notebooks draw."""
