"""What holds a job, its records and its figures to all that can be known about them."""
