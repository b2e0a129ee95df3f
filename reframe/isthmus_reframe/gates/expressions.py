"""Parts of a -E expression, each of which has to select or exclude something."""

import ast

_OPPOSITE = {ast.NotEq: ast.Eq, ast.NotIn: ast.In}


def narrowed(expression: str) -> list[str]:
    """Returns the parts of an expression that each have to select something: operands of `or`, and values after `in`.

    >>> narrowed("mode == 'pm' or size in ('tiny', 'super')")
    ["mode == 'pm'", "size == 'tiny'", "size == 'super'"]
    >>> narrowed("cpu_only and (mode == 'pm' or mode == 'uvm')")
    ["cpu_only and mode == 'pm'", "cpu_only and mode == 'uvm'"]
    """
    parts = [ast.unparse(part) for part in _narrowed(_parse(expression))]
    return parts if parts[1:] else [expression]


def denied(expression: str) -> list[str]:
    """Returns one equality for each string that the expression excludes with `!=` or `not in`. The session is refused
    if an equality matches no check that would be chosen without the option.

    >>> denied("mode != 'uvm' and size not in ('tiny', 'super') and num_gpus_per_node != 0")
    ["mode == 'uvm'", "size == 'tiny'", "size == 'super'"]
    """
    found = []
    for part in _conjuncts(_parse(expression)):
        if isinstance(part, ast.Compare) and type(part.ops[0]) in _OPPOSITE and not part.ops[1:] and _has_word(part):
            opposite = ast.Compare(part.left, [_OPPOSITE[type(part.ops[0])]()], part.comparators)
            found += [ast.unparse(each) for each in _narrowed(opposite)]
    return found


def holds(expression: str, case) -> bool:
    """Returns whether a test case satisfies an expression. An expression that cannot be evaluated counts as false, as
    in ReFrame."""
    try:
        return bool(eval(expression, None, case.check.__dict__))
    except Exception:
        return False


def _parse(expression: str) -> ast.expr:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:  # it selects nothing
        return ast.Constant(value=False)


def _narrowed(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return [part for value in node.values for part in _narrowed(value)]
    if isinstance(node, ast.BoolOp):
        found: list[ast.expr] = []
        for place, value in enumerate(node.values):
            if len(parts := _narrowed(value)) > 1:
                found += [
                    ast.BoolOp(node.op, [*node.values[:place], part, *node.values[place + 1 :]]) for part in parts
                ]
        return found or [node]
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In) and not node.ops[1:]:
        [values] = node.comparators
        if isinstance(values, (ast.Tuple, ast.List, ast.Set)) and values.elts:
            return [ast.Compare(node.left, [ast.Eq()], [value]) for value in values.elts]
    return [node]


def _conjuncts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in _conjuncts(value)]
    return [node]


def _has_word(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in ast.walk(node))
