"""`headwise generate`: `command` reads the arguments, `running` does what they ask."""
