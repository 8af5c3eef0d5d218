"""Pages for a browser: one viewer of heads, in one file, a notebook or served."""
