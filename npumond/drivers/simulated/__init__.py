"""A driver without a library: `load` has the curves, `chip` what follows from them, `driver` the vendor's calls."""
