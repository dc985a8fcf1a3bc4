"""What `fairbound.Reduction` makes of the fits of any classifier: lotteries, sums and plug-in rules, and its report."""
