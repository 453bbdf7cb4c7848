// What kind of arithmetic a call does, as far as its name tells: how errors travel through it.
#pragma once

#include <cstdint>

#include "src/dump/names.h"

namespace msprobe::analysis::compare {

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

// A reduction whose result may be anything between 0 and the sum of magnitudes: the other ones
// divide by the number of elements, or sum what cannot cancel.
bool IsPlainSum(const dump::EntryName& call);

bool IsPlainMean(const dump::EntryName& call);

// addcdiv: x + value a / b.
bool IsUpdateByQuotient(const dump::EntryName& call);

// Multiplies its operands, or divides the first by the second.
bool IsMultiplication(const dump::EntryName& call);
bool IsDivision(const dump::EntryName& call);

}  // namespace msprobe::analysis::compare
