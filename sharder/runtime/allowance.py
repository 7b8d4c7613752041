"""Limit how often something is told."""


class Allowance:
    """A token bucket; times are monotonic seconds."""

    def __init__(self, burst: int, seconds: float) -> None:
        """Allow `burst` calls at once, and then one more every `seconds`."""
        self._burst, self._seconds = burst, seconds
        self._left, self._at = float(burst), 0.0

    def take(self, now: float) -> bool:
        """Count one more call, if it is allowed; return whether it is."""
        self._left = min(self._burst, self._left + max(0.0, now - self._at) / self._seconds)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
