"""The tests of somebody's project: run, followed while they run, and reported in as few words as help."""
