"""Models: find and fetch them, load them, and route their attention to `attend`."""
