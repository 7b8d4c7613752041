"""Generates docs/sdk-api.md from the signatures and docstrings of the SDK's public names."""

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from sharder.shard.cluster import Cluster

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs/sdk-api.md"
MODULES: Final = ("sharder.sdk", "sharder.sdk.testing")
FIRST: Final = ("Shard", "Request", "OwnMeta", "Settings", "ShardTest", "FakeCluster")
INTERNAL: Final = {
    "Shard": {"handled", "serve_on"},
    "FakeCluster": set(vars(Cluster)),
}
"""Members that only the SDK itself uses."""
ELSEWHERE: Final = {"Settings": "[sdk.md](sdk.md#settings) lists its fields."}
"""Classes whose members another page has."""

HEAD: Final = """\
# SDK API

<!-- Written by `make reference` from the docstrings of sharder.sdk and sharder.sdk.testing: \
change these. -->

Look up a call, its arguments and its errors; [sdk.md](sdk.md) says how they work together.
"""
REWRITTEN: Final = (
    (r"^self\.(.*?) = .*", r"\1"),
    (r": (?:TypeAlias|Final)\b| = field\(.*| -> None|:$", ""),
    (r"^async def ", "await "),
    (r"^def ", ""),
    (r"\(self(?:, )?", "("),
    (r"(: [\w\[\], |]+)=(?! )", r"\1 = "),
    (r"'", '"'),
)
"""What makes a line of a definition the usage of its name."""


class Name(NamedTuple):
    """A name in a module or class: how it is used, and what its source says of it."""

    name: str
    usage: str
    doc: str
    body: Sequence[ast.stmt] = ()


def document() -> str:
    """Return the page."""
    page = "\n".join([HEAD, *(part for module in MODULES for part in _module(module))])
    seen = set[str]()
    return re.sub(r"(?<=Raises:\n\n)(?:- .*\n)+", lambda found: _errors(found[0], seen), page)


def _errors(items: str, seen: set[str]) -> str:
    """Return the items of errors; those that are in `seen` in one line, without the text."""
    lines = items.splitlines(keepends=True)
    again = [line.split(": ")[0].removeprefix("- ") for line in lines if line in seen]
    new = [line for line in lines if line not in seen]
    seen.update(lines)
    return "".join(new) + f"- {', '.join(again)}\n" * bool(again)


def _module(module: str) -> Iterator[str]:
    exported = import_module(module)
    others, errors = list[Name](), list[Name]()
    yield f"## {module}\n"
    for name in sorted(exported.__all__, key=[*FIRST, *exported.__all__].index):
        value, found = getattr(exported, name), _defined(module, name)
        if not isinstance(value, type):
            others.append(found)
        elif issubclass(value, Exception):
            base = value.__mro__[1].__name__
            errors.append(found._replace(usage=re.sub(r"\w$", rf"\g<0>({base})", found.usage)))
        else:
            members = [] if name in ELSEWHERE else _members(value)
            yield from _section("###", found, members, of=f"{name}.")
            if name in ELSEWHERE:
                yield f"{ELSEWHERE[name]}\n"
    yield from _section("###", Name("Functions, types and constants", "", ""), others)
    if errors:
        yield from _section("###", Name("Errors", "", ""), errors)


def _defined(module: str, name: str) -> Name:
    """Return a name that a module defines, or imports from the one that defines it."""
    tree = ast.parse(inspect.getsource(import_module(module))).body
    for node in tree:
        if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}:
            return _defined(node.module or "", name)
    return next(each for each in names_in(tree) if each.name == name)


def _members(cls: type) -> list[Name]:
    """Return the public members of a class, the inherited ones first."""
    known = dict[str, Name]()
    for each in reversed(cls.__mro__):
        if each.__module__.startswith("sharder."):
            for member in names_in(_defined(each.__module__, each.__name__).body):
                inner = names_in(member.body) if member.name == "__init__" else ()
                known |= {found.name: found for found in (member, *inner)}
    hidden = INTERNAL.get(cls.__name__, ())
    return [m for m in known.values() if not m.name.startswith("_") and m.name not in hidden]


def names_in(body: Sequence[ast.stmt]) -> Iterator[Name]:
    """Yield what a module, a class, or `self` has, with the texts below attributes."""
    for node, after in pairwise([*body, ast.Pass()]):
        if isinstance(node, ast.ClassDef):
            starts = [each for each in names_in(node.body) if each.name == "__init__" and each.doc]
            usage = node.name + "".join(each.usage.removeprefix("__init__") for each in starts)
            doc = "\n\n".join([ast.get_docstring(node) or "", *(each.doc for each in starts)])
            yield Name(node.name, usage, doc.strip(), node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
            if marks <= {"property", "override"}:
                usage = _usage(node)
                usage = usage.replace("() ->", ":") if "property" in marks else usage
                yield Name(node.name, usage, ast.get_docstring(node) or "", node.body)
        elif isinstance(node, ast.AnnAssign) or _is_value(node):
            usage = _usage(node)
            text = ast.unparse(after) if isinstance(after, ast.Expr) else "''"
            doc = inspect.cleandoc(ast.literal_eval(text)) if text[0] in "'\"" else ""
            yield Name(re.split(r"\W", usage)[0], usage, doc)


def _is_value(node: ast.stmt) -> bool:
    """Return whether it defines a value of an enumeration."""
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).isupper()


def _usage(node: ast.stmt) -> str:
    lines = ast.unparse(node).splitlines()
    usage = next(line for line in lines if not line.startswith("@"))
    for pattern, replacement in REWRITTEN:
        usage = re.sub(pattern, replacement, usage)
    return usage


def _section(
    level: str, about: Name, members: Sequence[Name] = (), *, of: str = ""
) -> Iterator[str]:
    """Yield what a name is for, a table of its short members, and a section for each other."""
    yield f"{level} {about.name}\n"
    if about.usage not in {"", about.name}:
        yield f"`{about.usage}`\n"
    yield from (_paragraph(each) for each in about.doc.split("\n\n") if each)
    if fields := ", ".join(f"`{_bare(each.usage)}`" for each in members if not each.doc):
        yield f"Fields: {fields}.\n"
    short = [each for each in members if each.doc and "\n\n" not in each.doc]
    for each in short:
        yield f"- `{each.usage}`: {' '.join(each.doc.split())}" + "\n" * (each is short[-1])
    for each in members:
        if "\n\n" in each.doc:
            yield from _section(f"{level}#", each._replace(name=of + each.name))


def _bare(usage: str) -> str:
    """Return a field without its default."""
    return usage.partition(" = ")[0]


def _paragraph(text: str) -> str:
    heading, _, rest = text.partition("\n")
    if heading not in {"Args:", "Raises:"}:
        return (text if text.startswith("    ") else " ".join(text.split())) + "\n"
    items = re.split(r"\n    (?=\S)", "\n" + rest)[1:]
    pairs = (" ".join(item.split()).partition(": ") for item in items)
    return f"{heading}\n\n" * (heading == "Raises:") + "".join(
        f"- `{name.replace(', ', '`, `')}`: {about}\n" for name, _, about in pairs
    )
