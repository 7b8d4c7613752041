"""Certificates for the webhook: how they are issued, stored and replaced."""
