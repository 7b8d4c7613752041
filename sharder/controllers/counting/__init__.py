"""Count the objects of every ring."""
