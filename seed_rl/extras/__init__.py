"""The wing of neighbours: features that a plain run does not need, one folder each, which can be taken away.

A neighbour imports the core and no other neighbour, and nothing imports a neighbour: commands and flags are found by
entry point, everything else is handed to a seam of the core. docs/architecture.md lists the seams.
"""
