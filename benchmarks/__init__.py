"""How fast and how large: the C ceiling, the refit reference, the complexity report and the regression check."""
