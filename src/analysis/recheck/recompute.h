// One captured call, recomputed and judged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/recheck/judge.h"
#include "src/analysis/recheck/options.h"
#include "src/base/threads.h"
#include "src/dump/json_source.h"

namespace msprobe::analysis::recheck {

struct CallVerdict {
  Verdict verdict = Verdict::kNotCheckable;
  double ratio = 0;                // of the worst tensor; 0 where nothing was judged
  std::vector<Judgement> tensors;  // in the order of the outputs
  std::string reason;              // not checkable, or a shape that is wrong: why
  // It is within its bound only if less exact arithmetic than float32 is allowed: `reason` tells
  // which.
  bool is_less_exact = false;
  bool rounds_factors = false;  // that is TF32 or HF32
  bool has_products = false;    // products of matrices are among what it computes
  std::string unreadable;       // a tensor file of it that could not be read, and why; empty: none
  std::string operation;        // "linear"; empty when the operator is not known

  // The tensor that decides: the one of the largest ratio. Null where nothing was judged.
  const Judgement* worst() const;
};

// Trees of a dump's entries. `backward` and `parameters_grad` may be null.
struct RecordedCall {
  std::string_view name;  // of the entry that is rechecked: "Functional.linear.3.forward"
  const dump::EntryTree* forward = nullptr;
  const dump::EntryTree* backward = nullptr;
  const dump::EntryTree* parameters_grad = nullptr;
  reference::TensorSource tensors;
  reference::OtherCalls others = {};
  reference::Remarks remarks = {};
};

// Outputs of the forward call.
CallVerdict RecheckForward(const RecordedCall& call, const Precision& precision,
                           base::ThreadPool& pool);
// Gradients that go out of the backward call, from those that come in and the forward call's
// inputs; of a module also those of its parameters, which are wrong only where they are the call's
// alone: they sum up all uses, and hooks may change them. Autograd's hooks see the gradients of the
// last node of a call: each is held against the gradients of all steps of the call that have its
// shape.
CallVerdict RecheckBackward(const RecordedCall& call, const Precision& precision,
                            base::ThreadPool& pool);

}  // namespace msprobe::analysis::recheck
