"""Linear models moved along lines on which every decision is counted: what smooth training cannot see."""
