"""Write all generated files."""

from hack.reference import commands, configuration, ring, sdk_api

schema, values = configuration.SCHEMA.read_text(), configuration.VALUES.read_text()
ring.DOCUMENT.write_text(ring.document(ring.CRD.read_text()))
configuration.DOCUMENT.write_text(configuration.document(schema, values))
configuration.README.write_text(configuration.readme(schema, values))
commands.DOCUMENT.write_text(commands.document())
sdk_api.DOCUMENT.write_text(sdk_api.document())
