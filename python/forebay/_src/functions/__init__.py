"""Users' Python functions: their names, their bytes, the process they run in, their errors."""
