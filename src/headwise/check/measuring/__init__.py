"""How large an influence is, and whether it is more than rounding."""
