"""Write all generated files."""

import yaml

from hack.reference import (
    alerts,
    commands,
    configuration,
    dashboard,
    labels,
    metrics,
    readme,
    ring,
    sdk_api,
)

schema, values = configuration.SCHEMA.read_text(), configuration.VALUES.read_text()
ring.DOCUMENT.write_text(ring.document(ring.CRD.read_text()))
configuration.DOCUMENT.write_text(configuration.document(schema, values))
readme.DOCUMENT.write_text(readme.document(schema, values))
advice, outcomes = (
    yaml.safe_load(path.read_text()) for path in (metrics.ADVICE, metrics.OUTCOMES)
)
metrics.DOCUMENT.write_text(metrics.document(advice, outcomes))
labels.DOCUMENT.write_text(labels.document())
commands.DOCUMENT.write_text(commands.document())
sdk_api.DOCUMENT.write_text(sdk_api.document())
alerts.DOCUMENT.write_text(
    alerts.document(alerts.RULES.read_text(), yaml.safe_load(alerts.RUNBOOKS.read_text()))
)
dashboard.FILE.write_text(dashboard.document())
