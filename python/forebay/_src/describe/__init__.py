"""The statistics of a dataset's columns that `Dataset.describe` and `forebay info` show."""
