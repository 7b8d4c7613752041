"""The console: a read-only web page that shows the current state of the rings to people."""
