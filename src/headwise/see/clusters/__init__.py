"""Clusters: which heads look alike, by the Jensen-Shannon distance of their rows."""
