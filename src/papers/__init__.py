"""What belongs to one paper: its data and its method, a package for each paper."""
