"""Profiles: statistics of every head over a corpus, from the meters of one pass to the saved table."""
