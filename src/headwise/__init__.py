"""headwise: see, check and cut every attention head."""
