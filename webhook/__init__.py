"""The admission webhook, and the HTTP servers that the process offers."""

from webhook.app import create_app, create_health_app, create_metrics_app
from webhook.endpoint import Observer
from webhook.readers import Readers
from webhook.server import Server
from webhook.tls import ServerTls
from webhook.validation import RingValidation

__all__ = [
    "Observer",
    "Readers",
    "RingValidation",
    "Server",
    "ServerTls",
    "create_app",
    "create_health_app",
    "create_metrics_app",
]
