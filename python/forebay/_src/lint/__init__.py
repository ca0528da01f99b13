"""`forebay lint`: finds possible errors in the datasets of a script, and ops that could be faster."""
