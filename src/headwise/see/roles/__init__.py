"""Roles: what each head is, with the evidence for it, and the cases themselves."""
