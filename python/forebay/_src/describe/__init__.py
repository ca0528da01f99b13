"""Statistics of a dataset's columns: what `Dataset.describe` and `forebay info` show."""
