"""The code that travels, as Python 3.9 and 3.10 run it: that is what RHEL 9 and Ubuntu 22.04 have.

Our source is of 3.11. `match` becomes `if`; annotations stay unread; unions of types become Union or a tuple;
f-strings become str.format, because those that a newer Python writes cannot be read by an older one; what the
library lacks there comes from `stand_ins`.
"""

import ast
import os
from collections.abc import Iterator, Mapping

HERE = os.path.dirname(os.path.abspath(__file__))
STAND_INS = f"{HERE}/stand_ins"
MODULES = frozenset(name[:-3] for name in os.listdir(STAND_INS) if name.endswith(".py")) - {"__init__"}
# -P is of 3.11. With -I our watcher has no less than a bare python3 has.
REWORDED = {"bgjob/system/own_argv.py": (b'"-P"', b'"-I"')}


def lowered_package(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same files, lowered, and the stand-ins."""
    lowered = {name: _lowered_file(name, data) for name, data in files.items()}
    return {**lowered, **dict(stand_ins())}


def stand_ins() -> Iterator[tuple[str, bytes]]:
    for name in sorted(MODULES | {"__init__"}):
        with open(f"{STAND_INS}/{name}.py", "rb") as file:
            yield f"bgjob/stand_ins/{name}.py", file.read()


def _lowered_file(name: str, data: bytes) -> bytes:
    if name in REWORDED:
        old, new = REWORDED[name]
        assert old in data
        data = data.replace(old, new)
    return lowered(data.decode()).encode()


def lowered(text: str) -> str:
    """ValueError: it has something for which there is no rule."""
    tree = _Lowering().visit(ast.parse(text))
    return ast.unparse(ast.fix_missing_locations(_with_unread_annotations(tree)))


def _with_unread_annotations(tree: ast.Module) -> ast.Module:
    at = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    known = tree.body[at : at + 1]
    if not (known and isinstance(known[0], ast.ImportFrom) and known[0].module == "__future__"):
        tree.body.insert(at, ast.ImportFrom("__future__", [ast.alias("annotations")], 0))
    return tree


class _Lowering(ast.NodeTransformer):
    def __init__(self) -> None:
        self._matches = 0

    # -- what the library lacks ---------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        """`import re` -> `from bgjob.stand_ins import re`"""
        moved = [each for each in node.names if each.name in MODULES]
        node.names = [each for each in node.names if each not in moved]
        new: list[ast.stmt] = [ast.ImportFrom("bgjob.stand_ins", moved, 0)] if moved else []
        return [*new, *([node] if node.names else [])]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.module in MODULES:
            node.module = f"bgjob.stand_ins.{node.module}"
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "zip":
            node.keywords = [each for each in node.keywords if each.arg != "strict"]
        if name in ("isinstance", "issubclass") and isinstance(node.args[1], ast.BinOp):
            node.args[1] = ast.Tuple(list(_parts(node.args[1])), ast.Load())
        return node

    # -- types --------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        """An alias of a type has a name in CamelCase; flags, in capitals, stay."""
        self.generic_visit(node)
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id[0].isupper() and not target.id.isupper():
            node.value = _Unions().visit(node.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        values: list[ast.expr] = []
        template = ast.Constant(_template(node, values))
        values = [self.visit(value) for value in values]
        return ast.Call(ast.Attribute(template, "format", ast.Load()), values, [])

    # -- match --------------------------------------------------------------------------------------

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        self.generic_visit(node)
        self._matches += 1
        subject = ast.Name(f"_subject_{self._matches}", ast.Load())
        chain: list[ast.stmt] = []
        for case in reversed(node.cases):
            test = _test(case.pattern, subject)
            test = ast.BoolOp(ast.And(), [test, case.guard]) if case.guard else test
            chain = [ast.If(test, case.body, chain)]
        return [ast.Assign([ast.Name(subject.id, ast.Store())], node.subject), *chain]


class _Unions(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if not isinstance(node.op, ast.BitOr):
            return node
        parts: list[ast.expr] = [self.visit(each) for each in _parts(node)]
        typing = ast.Call(ast.Name("__import__", ast.Load()), [ast.Constant("typing")], [])
        union = ast.Attribute(typing, "Union", ast.Load())
        return ast.Subscript(union, ast.Tuple(parts, ast.Load()), ast.Load())


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """A, B and C of A | B | C."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _parts(node.left)
        yield from _parts(node.right)
    else:
        yield node


def _template(node: ast.expr, values: list[ast.expr]) -> str:
    """For str.format, which numbers its fields in the order in which they open."""
    match node:
        case ast.JoinedStr(values=parts):
            return "".join(_template(part, values) for part in parts)
        case ast.Constant(value=str(text)):
            return text.replace("{", "{{").replace("}", "}}")
        case ast.FormattedValue(value=value, conversion=conversion, format_spec=spec):
            values.append(value)
            mark = f"!{chr(conversion)}" if conversion >= 0 else ""
            return "{" + mark + (f":{_template(spec, values)}" if spec else "") + "}"
    raise ValueError(ast.dump(node))


def _test(pattern: ast.pattern, subject: ast.expr) -> ast.expr:
    """An expression that is true if the pattern matches, and that binds its names."""
    match pattern:
        case ast.MatchValue(value=value):
            return ast.Compare(subject, [ast.Eq()], [value])
        case ast.MatchSingleton(value=value):
            return ast.Compare(subject, [ast.Is()], [ast.Constant(value)])
        case ast.MatchOr(patterns=patterns):
            return ast.BoolOp(ast.Or(), [_test(each, subject) for each in patterns])
        case ast.MatchClass(cls=cls, patterns=[], kwd_attrs=names, kwd_patterns=patterns):
            fields = [ast.Attribute(subject, name, ast.Load()) for name in names]
            tests = [_test(each, field) for each, field in zip(patterns, fields, strict=True)]
            return _all([_call("isinstance", subject, cls), *tests])
        case ast.MatchSequence(patterns=patterns):
            items = [ast.Subscript(subject, ast.Constant(at), ast.Load()) for at in range(len(patterns))]
            tests = [_test(each, item) for each, item in zip(patterns, items, strict=True)]
            sequences = ast.Tuple([ast.Name("tuple", ast.Load()), ast.Name("list", ast.Load())], ast.Load())
            length = ast.Compare(_call("len", subject), [ast.Eq()], [ast.Constant(len(patterns))])
            return _all([_call("isinstance", subject, sequences), length, *tests])
        case ast.MatchAs(pattern=inner, name=name):
            return _all(
                [*([_test(inner, subject)] if inner else []), *([_bound(name, subject)] if name else [])]
            )
    raise ValueError(ast.dump(pattern))


def _bound(name: str, value: ast.expr) -> ast.expr:
    """Binds the name, and is true."""
    bound = ast.NamedExpr(ast.Name(name, ast.Store()), value)
    return ast.Compare(ast.Tuple([bound], ast.Load()), [ast.IsNot()], [ast.Constant(None)])


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _all(tests: list[ast.expr]) -> ast.expr:
    return ast.BoolOp(ast.And(), tests) if len(tests) > 1 else tests[0] if tests else ast.Constant(True)
