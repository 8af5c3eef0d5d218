"""`headwise ledger`: `command` reads the arguments, `running` does what they ask."""
