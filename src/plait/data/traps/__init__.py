"""What data say that was hardly meant."""
