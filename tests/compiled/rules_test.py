#!/usr/bin/env python3
"""Rules of msprobe.pytorch.compile_check: what float32 makes of an operator is within the bound of its float64 value, and what is changed by a
thousandth is not."""
import math
import sys
import unittest

try:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: F401
except ImportError as error:
    print("skipped: %s" % error)
    sys.exit(77)

from msprobe.pytorch.compile_check import rules
from msprobe.pytorch.compile_check.bounded import BLOCK, Bounded, Casts, NoRule, distance

aten = torch.ops.aten


def _inputs(seed=0):
    torch.manual_seed(seed)
    return torch.randn(33, 17), torch.randn(33, 17), torch.rand(33, 17) + 0.1


A, B, P = _inputs()
# (operator, arguments); results are floating-point.
CASES = [
    (aten.add.Tensor, (A, B)), (aten.sub.Tensor, (A, B)), (aten.mul.Tensor, (A, 0.1)), (aten.div.Tensor, (A, P)), (aten.exp.default, (A,)),
    (aten.log.default, (P,)), (aten.log1p.default, (P,)), (aten.sqrt.default, (P,)), (aten.rsqrt.default, (P,)), (aten.tanh.default, (A,)),
    (aten.sigmoid.default, (A,)), (aten.erf.default, (A,)), (aten.sin.default, (A,)), (aten.reciprocal.default, (P,)),
    (aten.pow.Tensor_Scalar, (P, 1.7)), (aten.pow.Tensor_Scalar, (A, 2)), (aten.sum.dim_IntList, (A, [1])), (aten.mean.dim, (A, [0])),
    (aten.amax.default, (A, [1])), (aten.var_mean.dim, (A, [1])), (aten.mm.default, (A, B.t())), (aten.cumsum.default, (A, 1)),
    (aten.addmm.default, (torch.randn(33), A, B.t())), (aten.bmm.default, (torch.randn(3, 4, 5), torch.randn(3, 5, 6))),
    (aten.convolution.default, (torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3), torch.randn(4), [1, 1], [1, 1], [1, 1], False, [0, 0], 1)),
    (aten.maximum.default, (A, B)), (aten.where.self, (A > 0, A, B)), (aten.prod.dim_int, (P, 1)), (aten.gelu.default, (A,)), (aten.lgamma.default, (P,)), (aten.lgamma.default, (A * 3,)),
    (aten.index_put.default, (torch.zeros(5, 17), [torch.arange(33) % 5], A, True)), (aten.expm1.default, (A,)),
    (aten.scatter_add.default, (torch.zeros(4, 17), 0, torch.arange(33)[:, None].expand(33, 17) % 4, A)),
]


def bounded(item):
    if isinstance(item, torch.Tensor):
        return Bounded.exact(item)
    return [bounded(part) for part in item] if isinstance(item, (list, tuple)) else item


def expected(operator, arguments):
    result = rules.apply(operator, bounded(arguments), {}, torch.float32)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def computed(operator, arguments):
    result = operator(*arguments)
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Rules(unittest.TestCase):
    def test_results_of_float32_are_within_their_bounds(self):
        for operator, arguments in CASES:
            for actual, value in zip(computed(operator, arguments), expected(operator, arguments)):
                with self.subTest(operator=str(operator)):
                    self.assertLessEqual(distance(actual, value).ratio, 1)

    def test_a_thousandth_is_beyond_them(self):
        for operator, arguments in CASES:
            for actual, value in zip(computed(operator, arguments), expected(operator, arguments)):
                changed = actual.clone().reshape(-1)
                place = int(changed.abs().argmax())
                changed[place] *= 1.001
                with self.subTest(operator=str(operator)):
                    far = distance(changed.reshape(actual.shape), value)
                    self.assertGreater(far.ratio, 1)
                    self.assertEqual(far.index, place)

    def test_chains_carry_errors_on(self):
        x = torch.randn(40, 8)
        steps = [(aten.exp.default, ()), (aten.mul.Tensor, (0.3,)), (aten.log1p.default, ()), (aten.sum.dim_IntList, ([1],)), (aten.rsqrt.default, ())]
        value, actual = Bounded.exact(x), x
        for operator, more in steps:
            value = rules.apply(operator, [value, *more], {}, torch.float32)
            actual = operator(actual, *more)
        self.assertLessEqual(distance(actual, value).ratio, 1)
        self.assertGreater(distance(actual * 1.0001, value).ratio, 1)

    def test_decisions_that_rounding_can_turn_are_not_held_against_a_kernel(self):
        near = Bounded(torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([1e-6, 1e-6], dtype=torch.float64), torch.float32)
        greater = rules.apply(aten.gt.Scalar, [near, 1.0], {}, torch.bool)
        self.assertEqual(distance(torch.tensor([True, True]), greater).ratio, 0)
        self.assertEqual(distance(torch.tensor([False, True]), greater).ratio, 0)
        self.assertEqual(distance(torch.tensor([True, False]), greater).ratio, math.inf)

    def test_infinities_and_nan_are_exact(self):
        value = rules.apply(aten.log.default, [Bounded.exact(torch.tensor([0.0, 1.0, -1.0]))], {}, torch.float32)
        self.assertLessEqual(distance(torch.tensor([-math.inf, 0.0, math.nan]), value).ratio, 1)
        self.assertEqual(distance(torch.tensor([0.0, 0.0, math.nan]), value).ratio, math.inf)
        self.assertEqual(distance(torch.tensor([-math.inf, 0.0, 1.0]), value).ratio, math.inf)

    def test_large_tensors_are_computed_in_blocks_with_the_same_values_and_bounds(self):
        columns = 96
        rows = 3 * BLOCK * torch.get_num_threads() // columns + 7
        x, row, column = torch.randn(rows, columns), torch.randn(columns), torch.rand(rows, 1) + 0.5
        for operator, arguments in ((aten.mul.Tensor, (x, row)), (aten.div.Tensor, (x, column)), (aten.exp.default, (x,)), (aten.add.Tensor, (x, row))):
            whole = expected(operator, arguments)[0]
            part = expected(operator, [item[-50:] if item.shape[0] == rows else item for item in arguments])[0]
            with self.subTest(operator=str(operator)):
                self.assertTrue(torch.equal(whole.value[-50:], part.value))
                self.assertTrue(torch.equal(whole.error[-50:], part.error))
                actual = operator(*arguments)
                self.assertLessEqual(distance(actual, whole).ratio, 1)
                actual[rows - 2, 5] += 1
                far = distance(actual, whole)
                self.assertEqual((far.index, round(far.share * actual.numel())), ((rows - 2) * columns + 5, actual.numel() - 1))
                self.assertGreater(distance(actual, whole, True).ratio, 1)
                actual[3, 3] = math.nan
                self.assertEqual(distance(actual, whole).ratio, math.inf)

        self.assertIsNone(expected(aten.add.Tensor, (x, x))[0].error)  # twice a value is not rounded

    def test_views_of_one_tensor_are_cast_once(self):
        casts = Casts()
        whole, turned, column = casts.exact(A), casts.exact(A.t()), casts.exact(A[:, 3])
        self.assertEqual(whole.value.data_ptr(), turned.value.data_ptr())
        self.assertTrue(torch.equal(turned.value, A.t().double()) and torch.equal(column.value, A[:, 3].double()))

    def test_random_numbers_have_no_rule(self):
        with self.assertRaises(NoRule):
            rules.apply(aten.rand_like.default, [Bounded.exact(A)], {}, torch.float32)


if __name__ == "__main__":
    unittest.main()
