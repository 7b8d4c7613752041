"""Write both documents."""

from hack.reference import configuration, ring

ring.DOCUMENT.write_text(ring.document(ring.CRD.read_text()))
configuration.DOCUMENT.write_text(
    configuration.document(configuration.SCHEMA.read_text(), configuration.VALUES.read_text())
)
