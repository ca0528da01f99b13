"""`forebay preview`: samples before and behind each op, as a page without scripts or as a picture."""
