"""What an audit found, in outcomes and in words."""
