"""How what is audited is run: on fresh copies, from one seed, in every way there is."""
