"""What belongs to no single framework."""
