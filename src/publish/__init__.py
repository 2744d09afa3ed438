"""What runs the notebooks and builds the book."""
