"""Other drafters that ours is compared with, and the comparison."""
