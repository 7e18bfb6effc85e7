"""How things are put to a person: text made inert, calls in a line, asks with their answers. No screen is known here."""
