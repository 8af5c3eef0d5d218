"""Looking: tokens, the record of a forward pass, and what each head does in it."""
