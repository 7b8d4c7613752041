"""The lines of `sharder check` for people: one for each finding, never cut."""

from sharder.cli.output import write
from sharder.core.diagnosis.finding import Finding
from sharder.core.diagnosis.report import CheckReport


def draw(report: CheckReport) -> None:
    """Print the findings and their number."""
    width = max((len(each.check) for each in report.findings), default=0)
    write(*(_line(each, width) for each in report.findings))
    many = len(report.findings)
    write(f"{many} checks: {report.failed} failed, {report.warned} with a warning")


def _line(finding: Finding, width: int) -> str:
    about = f"{finding.ring}: " if finding.ring else ""
    advice = f" => {finding.advice}" if finding.advice else ""
    return f"{finding.level:<4}  {finding.check:<{width}}  {about}{finding.message}{advice}"
