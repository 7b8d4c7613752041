"""What is wrong with an installation and its rings, and what to do: facts in, findings out.

`sharder check` and the console show these findings, `sharder explain` their advice.
"""
