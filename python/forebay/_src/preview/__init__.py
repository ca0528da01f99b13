"""`forebay preview`: samples before and after each op, as a page without scripts or as a picture."""
