"""Learning: objectives, the candidates they need, the optimiser and the loop."""
