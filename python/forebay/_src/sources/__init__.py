"""Sources: functions that make a dataset of files, arrays, tables and other datasets."""
