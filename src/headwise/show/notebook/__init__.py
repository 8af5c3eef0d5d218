"""The viewer in a notebook: a widget, or where there can be none, the page in a frame and a picture."""
