"""`headwise lab`: `command` reads the arguments, `running` runs claims, `telling` shows what folders hold."""
