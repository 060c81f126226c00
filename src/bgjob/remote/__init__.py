"""The near half of jobs on other machines."""
