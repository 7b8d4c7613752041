"""One admission request, one decision (docs/protocol.md, "Admission")."""
