"""What to label next: rounds of choosing rows, learning their labels, training."""
