"""The lab: the textbook claims about attention, masks and FFN, each run as an experiment with a verdict.

`claims/` holds one file per claim, written to be read as the lesson; what they are made of lies beside it.
"""
