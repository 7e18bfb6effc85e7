"""The web, as tools reach it: what may be reached, how it is asked, and what is made of the answer."""
