"""`headwise prune`: `command` reads the arguments, `cutting` cuts, `curve` measures shares, `running` shows."""
