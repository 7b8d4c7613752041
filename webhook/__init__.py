"""The admission webhook and the HTTP servers of the process."""

from webhook.app import health_app, metrics_app, webhook_app
from webhook.console import console_app
from webhook.endpoint import Observer
from webhook.messages import App
from webhook.metrics_auth import MetricsAuthorizer
from webhook.ring_validation import RingValidation
from webhook.server import Server
from webhook.tls import ServerTls

__all__ = [
    "App",
    "MetricsAuthorizer",
    "Observer",
    "RingValidation",
    "Server",
    "ServerTls",
    "console_app",
    "health_app",
    "metrics_app",
    "webhook_app",
]
