"""The demo: an atlas of the world, learned and asked."""
