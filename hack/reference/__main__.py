"""Write all generated files."""

import yaml

from hack.reference import configuration, dashboard, metrics, readme, ring

schema, values = configuration.SCHEMA.read_text(), configuration.VALUES.read_text()
ring.DOCUMENT.write_text(ring.document(ring.CRD.read_text()))
configuration.DOCUMENT.write_text(configuration.document(schema, values))
readme.DOCUMENT.write_text(readme.document(schema, values))
metrics.DOCUMENT.write_text(metrics.document(yaml.safe_load(metrics.ADVICE.read_text())))
dashboard.FILE.write_text(dashboard.document())
