"""Judges that compare a job, its records and its figures with everything that is known about them."""
