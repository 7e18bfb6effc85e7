"""What this checkout costs, and what its clients see: one run, kept results, charts. See README.md beside this file."""
