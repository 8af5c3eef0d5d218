"""Flow: what the masks of a model allow, layer by layer, beside what an edit of a token really moves."""
