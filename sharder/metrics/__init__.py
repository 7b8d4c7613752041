"""The series that the service exports."""
