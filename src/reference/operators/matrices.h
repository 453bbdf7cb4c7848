// What linear algebra shares. Exact results are computed in double; how far off a correct
// implementation may be follows from the residuals that elimination leaves, whatever its pivots
// (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.):
//   elimination       (A + dA) x = b with |dA| <= gamma(3n) |L| |U|          theorem 9.4
//   inverses          up to 8n instead of 3n, of Gauss-Jordan elimination    theorem 14.5
//   triangular ones   (T + dT) x = b with |dT| <= gamma(n) |T|               theorem 8.5
//   Cholesky          L L' = A + dA with |dA| <= gamma(n + 1) |L| |L'|       theorem 10.3
// A residual moves x by |inv(A)| |dA| |x|, the determinant by the trace of |inv(A)| |dA| of itself,
// and L by |L| times the lower half of |inv(L)| |dA| |inv(L)'| (theorem 10.8). Where such a part is
// more than a tenth the matrix is too close to a singular one, and nothing is said.
#pragma once

#include <cstddef>
#include <limits>

#include "src/reference/arithmetic/arithmetic.h"
#include "src/reference/call.h"

namespace msprobe::reference {

// A part that moves more than this leaves nothing to say.
inline constexpr double kMostOff = 0.1;
inline constexpr double kNothingKnown = std::numeric_limits<double>::infinity();

// Square matrices, one behind the other.
struct Matrices {
  size_t count = 0;
  size_t size = 0;
  size_t elements() const { return size * size; }
};

// The matrices of the last two dims; a problem of the call where they are not square.
Matrices MatricesOf(Call& call, const Value& x);
Value WithoutErrors(const Value& x);
Value MagnitudesOf(const Value& x);
// The product of magnitudes, without errors of its own.
Value MagnitudeProduct(const Arithmetic& m, const Value& a, const Value& b, bool transpose_b);
// x, of `rows` rows, with `moved` (what residuals of 1 unit move it by) as its error, in units of
// `gamma`. Where a row of `parts`, which is how much of themselves the matrices are moved by, comes
// to more than kMostOff, nothing is known.
Value WithMoved(const Arithmetic& m, const Value& x, const Value& moved, const Value& parts,
                double gamma, size_t rows);

}  // namespace msprobe::reference
