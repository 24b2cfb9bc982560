"""Rewriting of expressions: a function replaces every node.

Invariant: children are replaced before their parent, and nodes that nothing changes keep their class.
"""

from __future__ import annotations

from collections.abc import Callable

from lakehouse.expr.nodes import And, Applied, Compare, Expr, FunctionCall, In, IsNull, Not, Or

__all__ = ["rewritten"]


def rewritten(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Returns the expression with ``change`` applied to each node, the innermost first."""

    def visit(node: Expr) -> Expr:
        match node:
            case And(args):
                return change(And(tuple(map(visit, args))))
            case Or(args):
                return change(Or(tuple(map(visit, args))))
            case Not(arg):
                return change(Not(visit(arg)))
            case IsNull(arg):
                return change(IsNull(visit(arg)))
            case In(arg, values):
                return change(In(visit(arg), values))
            case Compare(op, left, right):
                return change(Compare(op, visit(left), visit(right)))
            case FunctionCall(name, args):
                return change(FunctionCall(name, tuple(map(visit, args))))
            case Applied(call, compute):
                first, *others = call.args
                return change(Applied(FunctionCall(call.name, (visit(first), *others)), compute))
        return change(node)

    return visit(expr)
