"""The console: a read-only web page that shows the rings to people while things happen."""
