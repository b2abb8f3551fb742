"""What inference servers say of themselves: their metrics pages, read and understood."""
