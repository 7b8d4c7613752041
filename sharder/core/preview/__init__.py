"""Look at rings without touching them: counts, plans and dumps, for the command line.

Pure like the core, whose own functions it calls: what is previewed is what the service would do.
"""
