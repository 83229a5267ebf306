"""Training: objectives, the candidates they need, the optimizer and the loop."""
