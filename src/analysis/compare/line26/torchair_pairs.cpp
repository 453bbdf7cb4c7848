#include "src/analysis/compare/line26/torchair_pairs.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/line26/ge_graph.h"

namespace msprobe::analysis::compare {
namespace {

using kernel_dump::OpenOperator;
using kernel_dump::VectorOperator;

// The first call of the FX graph that an output of an operator names; empty: none.
std::string CallOf(const GeNode& node) {
  const auto named = std::find_if(node.outputs.begin(), node.outputs.end(),
                                  [](const FxOutput& output) { return !output.call.empty(); });
  return named == node.outputs.end() ? std::string() : named->call;
}

class RankPairing {
 public:
  RankPairing(const TorchairSide& mine, const TorchairSide& golden, const TorchairRank& golden_rank)
      : mine_(mine), golden_(golden), golden_rank_(golden_rank) {
    for (const GeKernel& kernel : golden_rank.kernels) {
      kernels_[{kernel.token, kernel.op.name}].push_back(&kernel.op);
    }
  }

  // Whether it has a partner.
  bool AddKernel(const GeKernel& kernel) {
    const size_t before = rows_.size();
    const Result<OpenOperator> open = OpenOperator::Open(kernel.op);
    // What cannot be read has a row all the same, of its first output.
    const size_t inputs = open.ok() ? open->count(false) : 0;
    const size_t outputs = open.ok() ? open->count(true) : 1;
    if (golden_.is_ge()) {
      AddBesideKernels(kernel, inputs, outputs);
    } else {
      AddBesideCalls(kernel, inputs, outputs);
    }
    return rows_.size() > before;
  }

  std::vector<TorchairRow> TakeRows() { return std::move(rows_); }

 private:
  void Add(const GeKernel& kernel, TensorPlace golden, bool is_output, size_t number) {
    rows_.push_back({kernel.token, std::move(golden), {&kernel.op, {}, is_output, number}});
  }

  // The run of `name` in the kernel's token that is number `turn`; null when there is none.
  const VectorOperator* FindKernel(const GeKernel& kernel, const std::string& name,
                                   size_t turn) const {
    const auto found = kernels_.find({kernel.token, name});
    return found == kernels_.end() || turn >= found->second.size() ? nullptr : found->second[turn];
  }

  void AddBesideKernels(const GeKernel& kernel, size_t inputs, size_t outputs) {
    const size_t turn = turns_[{kernel.token, kernel.op.name}]++;
    const VectorOperator* first = FindKernel(kernel, kernel.op.name, turn);
    const VectorOperator* last = first;
    if (first == nullptr) {
      std::vector<std::string> names;
      SplitFused(golden_.graph, kernel.op.name, &names);
      if (!names.empty()) {
        first = FindKernel(kernel, names.front(), turn);
        last = FindKernel(kernel, names.back(), turn);
      }
    }
    for (size_t i = 0; first != nullptr && i < inputs; ++i) {
      Add(kernel, {first, {}, false, i}, false, i);
    }
    for (size_t i = 0; last != nullptr && i < outputs; ++i) {
      Add(kernel, {last, {}, true, i}, true, i);
    }
  }

  void AddBesideCalls(const GeKernel& kernel, size_t inputs, size_t outputs) {
    const std::vector<const GeNode*> parts = SplitFused(mine_.graph, kernel.op.name);
    if (parts.empty()) {
      const bool converts = kernel.op.op_type == "Cast" || kernel.op.op_type == "TransData";
      if (converts && inputs > 0 && outputs > 0) {
        Add(kernel, {&kernel.op, {}, false, 0}, true, 0);
      }
      return;
    }
    const auto add = [&](const std::string& call, bool is_output, size_t fx, size_t ge) {
      const auto found = golden_rank_.arrays.find({kernel.token, call, is_output, fx});
      if (!call.empty() && found != golden_rank_.arrays.end()) {
        Add(kernel, {nullptr, found->second, is_output, fx}, is_output, ge);
      }
    };
    const std::string first_call = CallOf(*parts.front());
    for (size_t i = 0; i < inputs; ++i) {
      add(first_call, false, i, i);
    }
    const GeNode& last = *parts.back();
    const std::string last_call = CallOf(last);
    for (size_t i = 0; i < outputs; ++i) {
      const bool told = i < last.outputs.size() && !last.outputs[i].call.empty();
      add(told ? last.outputs[i].call : last_call, true, told ? last.outputs[i].number : i, i);
    }
  }

  const TorchairSide& mine_;
  const TorchairSide& golden_;
  const TorchairRank& golden_rank_;
  using KernelKey = std::pair<int64_t, std::string>;  // token, name
  // A loop runs a kernel more than once per token.
  std::map<KernelKey, std::vector<const VectorOperator*>> kernels_;
  std::map<KernelKey, size_t> turns_;
  std::vector<TorchairRow> rows_;
};

}  // namespace

std::string TensorPlace::Text() const {
  return op == nullptr
             ? array.string()
             : fmt::format("{},{},{}", op->dump.string(), is_output ? "outputs" : "inputs", number);
}

Result<tensor::TensorBuffer> TensorPlace::Read() const {
  VectorOperator source;
  if (op == nullptr) {
    source.arrays[number] = array;
  }
  MSP_ASSIGN_OR_RETURN(const OpenOperator open, OpenOperator::Open(op == nullptr ? source : *op));
  const bool outputs = op == nullptr || is_output;
  if (!open.has(outputs, number)) {
    return NotFoundError("the file has no such tensor");
  }
  MSP_ASSIGN_OR_RETURN(tensor::TensorBuffer buffer, open.AsFrameworkKnows(outputs, number));
  MSP_RETURN_IF_ERROR(open.Check());
  return buffer;
}

std::vector<TorchairRow> PairTorchairRank(const TorchairSide& mine, const TorchairRank& mine_rank,
                                          const TorchairSide& golden,
                                          const TorchairRank& golden_rank,
                                          uint64_t& without_partner) {
  RankPairing pairing(mine, golden, golden_rank);
  for (const GeKernel& kernel : mine_rank.kernels) {
    without_partner += pairing.AddKernel(kernel) ? 0U : 1U;
  }
  return pairing.TakeRows();
}

}  // namespace msprobe::analysis::compare
