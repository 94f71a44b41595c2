"""PlanningDQUCB: densities of outcomes, the plan made in them, and the tests that detect a change."""
