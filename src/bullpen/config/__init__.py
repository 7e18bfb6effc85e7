"""Finds, merges and checks config files; knows the catalogue of providers. Reads nothing but what it is handed."""
