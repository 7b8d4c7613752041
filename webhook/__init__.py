"""The admission webhook and the HTTP servers of the process."""

from webhook.app import App, Health, Metrics, Webhook
from webhook.console import Console
from webhook.endpoint import Observer
from webhook.metrics_auth import MetricsAuthorizer
from webhook.ring_validation import RingValidation
from webhook.server import Server
from webhook.tls import ServerTls

__all__ = [
    "App",
    "Console",
    "Health",
    "Metrics",
    "MetricsAuthorizer",
    "Observer",
    "RingValidation",
    "Server",
    "ServerTls",
    "Webhook",
]
