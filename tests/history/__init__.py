"""What happened in a run, as data, and the judges on it: for real processes and for the stage."""
