"""What is found out of data and runs, as documents."""
