"""The admission webhook and the HTTP servers of the process."""

from webhook.app import Health, Webhook, create_metrics_app
from webhook.endpoint import Observer
from webhook.metrics_auth import MetricsAuthorizer
from webhook.ring_validation import RingValidation
from webhook.server import Server
from webhook.tls import ServerTls

__all__ = [
    "Health",
    "MetricsAuthorizer",
    "Observer",
    "RingValidation",
    "Server",
    "ServerTls",
    "Webhook",
    "create_metrics_app",
]
