"""What an audit puts in: under which names a model takes it, what was given, what is drawn."""
