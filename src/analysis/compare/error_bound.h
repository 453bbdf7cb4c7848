// How far apart the outputs of one call may be when its inputs are as far apart as the dumps say:
// what a call that computes rightly cannot exceed, estimated from the recorded norms.
//
// For a sum of products, forward error analysis gives |fl(AB) - AB| <= (eA + eB + gamma) |A||B|
// element by element (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
// section 3.5). Errors that come from rounding point in random directions, so that of M products
// behind all outputs only sqrt(M) add up: relative to the output the error is about e rms(A) rms(B)
// sqrt(M) / |AB|, which is large exactly where sums cancel. The other families follow from the
// derivative of their function.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/dump/names.h"

namespace msprobe::analysis::compare {

// The kind of arithmetic of a call by its name: how errors travel through it.
enum class OperatorFamily : uint8_t {
  kContraction,    // sums of products of two operands: linear, matmul, convolutions
  kSmooth,         // |f(x) - f(y)| <= about |x - y|: add, gelu, cat, copies and views
  kThreshold,      // as kSmooth, but the derivative jumps: relu, max_pool, clamp
  kProduct,        // products and quotients element by element
  kNormalisation,  // layer_norm, batch_norm, rms_norm
  kSoftmax,        // softmax, log_softmax, cross_entropy
  kReduction,      // sum, mean and what is built on them: mse_loss
  kDiscrete,       // the result jumps: topk, argmax, sort, round, comparisons
  kExact,          // values are moved, never computed: views, copies, indexing
  kComposite,      // everything else: lstm, attention, modules around other calls
};

OperatorFamily FamilyOf(const dump::EntryName& call);

// One tensor of a call, as the reference dump recorded it.
struct Operand {
  double rms = 0;  // Norm / sqrt(elements); 0 when unknown
  double mean = 0;
  double largest = 0;   // max(|Max|, |Min|) where finite
  double smallest = 0;  // Min where all elements are positive
  double elements = 1;
  double error = 0;        // Distance::relative between both sides
  double scale_error = 0;  // of Norm and Mean alone: what errors of its elements have in common
  double epsilon = 0;      // of the coarser dtype of both sides; 0 for exact types
  std::string_view shape;  // "[2, 3]"
  bool is_state = false;   // a weight, bias or running statistic
  // How far single elements may be apart although the statistics hardly are, relative to rms.
  double hidden_error = 0;
};

struct CallOperands {
  std::vector<Operand>
      inputs;  // of the call itself; of a backward call the gradients that enter it
  // Backward calls and parameter gradients: inputs and parameters of the forward call; empty where
  // it is not recorded.
  std::vector<Operand> forward_inputs;
  double inner_error = 0;  // the largest error of calls inside a module
};

// `hidden_error`: what inputs may be apart without the dump showing it, relative to their scale; 0
// while everything before this call is bit-equal. `slack`: further room, 1 for none.
struct BoundOptions {
  double hidden_error = 0;
  double slack = 1;
};

// The largest relative error of `output` that errors of the inputs and rounding explain; infinite
// where the call's result may jump. Includes the slack that estimates need.
double ExplainedError(const dump::EntryName& call, OperatorFamily family,
                      const CallOperands& operands, const Operand& output,
                      const BoundOptions& options);

// The share of `elements` values that choose the other of two branches when
// they are off by `error` relative to their scale: the density of a normal variable at 0 is 0.4 per
// standard deviation, on either side. 0 where not even one flip is to be expected in 300 such
// tensors. An error of the root of this share follows.
double FlippedShare(double error, double elements);

}  // namespace msprobe::analysis::compare
