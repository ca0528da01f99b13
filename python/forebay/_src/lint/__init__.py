"""`forebay lint`: what could go wrong, or be faster, in the datasets of a script."""
