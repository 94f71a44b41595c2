"""One script per figure or table of the paper. Nothing imports this package."""
