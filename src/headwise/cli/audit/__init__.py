"""`headwise audit`: `command` reads the arguments, `factory` imports a module of yours, `running` audits."""
