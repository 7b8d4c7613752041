"""The admission webhook and the HTTP servers of the process."""
