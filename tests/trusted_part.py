"""The trusted part: every module that the kernel and the leases import, and the page that lists
them.

Imports inside functions count, and so do the packages that a module lies in. Three kinds do not:
imports for type checkers, those of a package's own `__getattr__` (a name that only somebody outside
asks for), and those of the root package, which is such a table of names for users.
`test_trusted.py` checks that nothing inside asks for such a name, and that Python loads no other
module.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dither"
PAGE = ROOT / "docs" / "trusted.md"
KERNEL = (
    "dither.privacy.kernel.kernel",
    "dither.privacy.kernel.lease",
    "dither.privacy.kernel.budget_lease",
    "dither.privacy.kernel.online_lease",
)
BASELINE = 10_895  # statements, 173 modules: the same closure before the redesign (4fbbee0)
LARGEST_SHARE = 115
"""74, and four more for the rules of stability that keep keys, bounds and sums through joins and
groups: they are queries of the kernel, and claim less noise (plan/carry_degrees.py, carry_sums.py,
narrow.py, refine.py, stability/degrees.py). One more for families with less noise: those of release
0.1 stay beside them, so that its answers are found. One more for what units of one window share,
and for public tables as they are pinned (stability/windows.py, facts.py).
Four more for linear queries: public operators, their
exact column norms and exact products (plan/operators.py, operator_norms.py, apply_operator.py,
linear.py), two for rounded Gaussian noise and its sampler (noise/rounded.py,
mechanisms/rounded_gaussian.py), two for choices by scores and for the lease of a budget
(plan/utilities.py, scores.py, mechanisms/score_selection.py, kernel/budget_lease.py). Six more for
vectors of units, a query of the kernel on which all learning stands: public encodings and functions
of rows, the clip with its exact check, exact sums and secret samples (plan/encodings.py,
vector_functions.py, vectors.py, data/vectors/, mechanisms/rounded_gaussian.py). The accountant
stays outside; four for the small one in exact integers by which leases of fixed steps pay the exact
curve of their plan (charges/normal.py, loss_grid.py, fixed_plans.py). One
more for one choice among marginals over different keys (JointScores) and for spectral strategies of
thousands of cells (ToeplitzHankel). Two more for adaptive blocks, whose splits and counts are one
mechanism with one loss (plan/blocks.py, mechanisms/adaptive_blocks.py). One more for totals and
groups of public tables, which plans join to private rows (stability/group.py, per_unit.py, join.py,
data/lower/group.py). One more for the epoch that fences curators of one ledger
(ledger/epochs.py) and for the time limit of the engine (kernel/time_limit.py). Four more for the
interface of engines and two engines beside DuckDB (data/lower/dialect.py, engines/postgres/,
engines/spark/); a dataset that names neither loads neither. Three more for the threshold that
compares estimates of an online model with the data (kernel/online_lease.py,
mechanisms/threshold_epoch.py), and for sums over leaves, centres and cut coordinates, on which
trees, clusters and the Lasso stand (plan/vector_functions.py, data/vectors/). One more for networks
as data, whose gradients the kernel computes itself: no code of a caller may see rows
(plan/network_functions.py, data/vectors/network.py). Three more for boxes of cells as an operator
(plan/operators.py, operator_norms.py, apply_operator.py), gradients as factors of rows
(data/vectors/clip.py), fewer ranges of quantiles (mechanisms/quantile_families.py), rules between
columns of a catalog (catalog/row_rules.py) and the pinned rows of public tables
(kernel/public_rows.py), and for contents of Spark copies checked by digests
(engines/spark/tables.py). One more for the exact curve of Gaussian noise alone
(charges/gaussian_curve.py) and for jobs on leases that end in time (kernel/lease.py)."""
REWRITE = "DITHER_WRITE_TRUSTED=1 python -m pytest tests/test_trusted.py"


class Tree:
    """The modules of a package's source folder, by name."""

    def __init__(self, source: Path) -> None:
        self.root = source.name
        self.files = {_module_name(path, source.parent): path for path in source.rglob("*.py")}

    @cache  # noqa: B019
    def parse(self, module: str) -> ast.Module:
        return ast.parse(self.files[module].read_text(encoding="utf-8"))

    @cache  # noqa: B019
    def find_imports(self, module: str) -> set[str]:
        """The modules of this tree that one imports, with the packages that they lie in."""
        if module == self.root:
            return set()
        names: set[str] = set()
        for node in _walk_imports(self.parse(module)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            else:
                names |= {f"{node.module}.{alias.name}" for alias in node.names} | {
                    str(node.module)
                }
        found = {name for name in names if name in self.files}
        return found | {package for name in found | {module} for package in _packages_of(name)}

    def find_closure(self, seeds: set[str]) -> set[str]:
        """The seeds, all that they import, all that those import, and so on."""
        closure: set[str] = set()
        waiting = set(seeds)
        while waiting:
            module = waiting.pop()
            closure.add(module)
            waiting |= self.find_imports(module) - closure
        return closure

    def count_statements(self, module: str) -> int:
        """Statements. Docstrings are left out: nobody shall save by deleting them. So are the
        members of an Enum: they are lines of a table, as the entries of a dict are."""
        nodes = list(ast.walk(self.parse(module)))
        members = sum(_count_members(node) for node in nodes if isinstance(node, ast.ClassDef))
        return (
            sum(isinstance(node, ast.stmt) and not _is_docstring(node) for node in nodes) - members
        )

    def sort_bottom_up(self, modules: set[str]) -> list[str]:
        """Imported modules before those that import them."""
        order: list[str] = []
        visited: set[str] = set()

        def visit(module: str) -> None:
            if module not in visited:
                visited.add(module)
                for imported in sorted(self.find_imports(module) & modules):
                    visit(imported)
                order.append(module)

        for module in sorted(modules):
            visit(module)
        return order

    def first_sentence(self, module: str) -> str:
        text = ast.get_docstring(self.parse(module)) or ""
        paragraph = " ".join(text.split("\n\n")[0].split())
        return re.split(r"(?<=\.)\s", paragraph)[0].replace("|", "\\|")


def _count_members(node: ast.ClassDef) -> int:
    """Members of an Enum: names bound to constants in its body."""
    if not any(ast.unparse(base).endswith("Enum") for base in node.bases):
        return 0
    return sum(isinstance(child, ast.Assign) for child in node.body)


def _is_docstring(node: ast.AST) -> bool:
    """A text that stands alone: of a module, class or function, or below the constant that it
    explains."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _module_name(path: Path, parent: Path) -> str:
    parts = path.relative_to(parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _packages_of(module: str) -> Iterator[str]:
    while "." in module:
        module = module.rsplit(".", 1)[0]
        yield module


def _walk_imports(node: ast.AST, depth: int = 0) -> Iterator[ast.Import | ast.ImportFrom]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    for child in ast.iter_child_nodes(node):
        is_lazy = depth == 0 and isinstance(child, ast.FunctionDef) and child.name == "__getattr__"
        is_for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        is_expression = isinstance(child, ast.expr)  # holds no import
        if not is_lazy and not is_for_types and not is_expression:
            yield from _walk_imports(child, depth + 1)


def find_lazy_names(tree: ast.Module) -> set[str]:
    """The names that a package's `__getattr__` offers."""
    functions = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
    ]
    constants = [
        node.value
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Constant)
    ]
    return {value for value in constants if isinstance(value, str) and value.isidentifier()}


def find_seeds(tree: Tree) -> set[str]:
    """The kernel, the leases, and every other importer of the data layer but the steward."""
    outside = [
        name for name in tree.files if not name.startswith(("dither.data", "dither.steward"))
    ]
    return set(KERNEL) | {name for name in outside if "dither.data" in tree.find_imports(name)}


@cache
def find_rooms() -> list[str]:
    """The rooms from the bottom up, as the import contracts of pyproject.toml state them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return [room.strip() for layer in reversed(contract["layers"]) for room in layer.split("|")]


def write_page(tree: Tree, closure: set[str]) -> str:
    """The page that lists the trusted part in reading order."""
    total = sum(tree.count_statements(module) for module in closure)
    lines = [
        "# The trusted part",
        "",
        "What answers a request and decides its price: the kernel, the leases, and every module "
        "that they import.",
        "Nothing else reads registered data to answer a question, or charges a pot. Two things are "
        "outside that an",
        "auditor reads beside it: registration (`dither.data.register`), which writes the copy "
        "whose limits the",
        "guarantee assumes, and the steward's acts (`dither.steward`), which open the budgets. "
        "What is outside both",
        "sees no rows: mistakes there cost utility, never privacy. Read from the bottom of the "
        "imports up:",
        "",
        f"{len(closure)} modules, {total:,} statements (docstrings not counted), "
        f"{100 * total / BASELINE:.1f}% of the",
        f"{BASELINE:,} that they had before they were made small. `tests/test_trusted.py` computes "
        f"the list, and fails",
        f"above {LARGEST_SHARE}% or where this page differs. To write the page anew:",
        "",
        f"    {REWRITE}",
    ]
    order = tree.sort_bottom_up(closure)
    for room in ["dither", *find_rooms()]:
        inside = [module for module in order if _room_of(module) == room]
        if inside:
            lines += ["", f"## {room}", "", "| module | statements | what it is |", "|---|---|---|"]
            lines += [
                f"| `{name}` | {tree.count_statements(name)} | {tree.first_sentence(name)} |"
                for name in inside
            ]
    return "\n".join(lines) + "\n"


def _room_of(module: str) -> str:
    rooms = [room for room in find_rooms() if module == room or module.startswith(f"{room}.")]
    return max(rooms, key=len, default="dither")
