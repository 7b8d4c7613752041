"""What waits: objects to look at again, and how long each has waited."""
