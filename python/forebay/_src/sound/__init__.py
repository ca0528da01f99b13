"""Ops on sound and on its spectra."""
