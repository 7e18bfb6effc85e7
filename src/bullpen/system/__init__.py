"""All that differs from one operating system to the next: addresses, processes, paths, clocks."""
