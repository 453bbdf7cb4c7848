// One call of a dump with everything that was recorded of it: what an operator recomputes from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/dump/json_source.h"
#include "src/reference/arithmetic/arithmetic.h"

namespace msprobe::reference {

// A tensor as it was captured.
struct CapturedTensor {
  std::string name;  // "output.0", "input.1", "parameters.weight"
  DType dtype = DType::kFloat32;
  Value value;  // null where it could not be read; `problem` tells why
  std::string problem;
  uint32_t position = 0;   // among the items of its list; nested ones count on
  bool is_shared = false;  // other calls and hooks may have a share in it
};

// The type that tensors are stored in, which decides what rounds on the way: that of the first
// floating one, or else of the first one. There is at least one.
DType StorageOf(const std::vector<CapturedTensor>& tensors);

// Remarks of the capture about a module, in manifest.json: a call records what it computed, not
// what else took part.
struct Remarks {
  std::string alteration;  // why it computes more than its class does; empty: it does not
  std::set<std::string, std::less<>>
      own_gradients;  // parameters whose gradient is the call's alone
};

// The values of a tensor, by the data_name of its leaf.
using TensorSource = std::function<Result<Value>(std::string_view data_name)>;
// How often each file of a folder of tensors was read.
class TensorLoads {
 public:
  // Calls of a dump have files of their own, which `readers` ranks look at; those of the gradients
  // of a module's parameters are read for each of its calls. What is named more often is out of
  // proportion to the bytes that are there.
  explicit TensorLoads(uint64_t readers) : most_(kMostLoads + kLoadsPerReader * readers) {}

  // kUnsupported: `name` was read too often.
  Status Ask(std::string_view name) const;
  void Count(std::string_view name, uint64_t elements);

 private:
  static constexpr uint64_t kMostLoads = 1024;
  static constexpr uint64_t kLoadsPerReader = 8;
  static constexpr uint64_t kFewElements = 1024;  // do not count

  const uint64_t most_;
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t, std::less<>> counts_;
};

// Files of a dump's folder of tensors.
TensorSource TensorsOf(std::filesystem::path folder, std::shared_ptr<TensorLoads> loads);
// Its elements as doubles. kUnsupported: complex numbers, integers beyond 2^53.
Result<Value> ValueOf(const TensorView& view);

// The same communication on all ranks of its group, in the group's order.
struct PeerCalls {
  std::vector<dump::EntryTree> trees;  // forward entries
  std::vector<TensorSource> tensors;
  std::vector<int64_t> ranks;
  std::vector<std::string> names;
  size_t own = 0;              // which of them this call is
  bool group_is_told = false;  // false: taken to be all ranks of the dump
};

// A tensor that another rank sent, in the entry of the call that sent it.
struct SentTensor {
  std::shared_ptr<const dump::EntryTree> tree;  // one for all that a call sent
  uint32_t node = 0;                            // of the tensor
  TensorSource tensors;
};

// The call of the same name one step later.
struct LaterCall {
  dump::EntryTree tree;
  TensorSource tensors;
};

// Calls beside this one that tell what it should have done, read when an operator asks for them.
// Any may be missing.
struct OtherCalls {
  std::function<Result<PeerCalls>()> group;
  std::function<Result<std::vector<SentTensor>>()> sent;  // what it received, in the order of that
  std::function<Result<LaterCall>()> later;
};

// Reads arguments by their position and by their name. An argument that is missing, or not of the
// type asked for, is a problem of the call: what is returned then only serves to go on, and null
// values make everything behind them null. The first problem is kept.
class Call {
 public:
  // The tree must outlive the call.
  Call(const dump::EntryTree& forward, TensorSource tensors)
      : forward_(forward), tensors_(std::move(tensors)) {}

  bool failed() const { return !problem_.empty(); }
  const std::string& problem() const { return problem_; }
  Value Fail(std::string reason);

  // ---- arguments of the forward call ----
  size_t ArgumentCount() const;                            // positional ones
  bool Has(size_t position, std::string_view name) const;  // given, and not None
  Value Tensor(size_t position, std::string_view name);
  Value OptionalTensor(size_t position, std::string_view name);
  Value TensorAt(uint32_t node, std::string_view name);                // a node of tree()
  std::vector<Value> Tensors(size_t position, std::string_view name);  // of a list, or one tensor
  // A tensor, or a number as Arithmetic::Scalar makes it of one.
  bool IsTensor(size_t position, std::string_view name) const;
  double Number(size_t position, std::string_view name, std::optional<double> otherwise = {});
  std::optional<double> NumberAt(uint32_t node) const;  // of {"type": ..., "value": ...}
  int64_t Int(size_t position, std::string_view name, std::optional<int64_t> otherwise = {});
  bool Bool(size_t position, std::string_view name, bool otherwise);
  std::string Text(size_t position, std::string_view name, std::string_view otherwise);
  // An int, a list of ints, or, with `spread`, all positional ints from `position` on.
  std::vector<int64_t> Ints(size_t position, std::string_view name, bool spread = false);
  Value Parameter(std::string_view name);  // of a module; null when it has none
  bool HasParameters() const;
  std::optional<DType> DTypeOf(const Value& argument) const;
  // That of the first argument of a 16-bit floating type among those that were asked for.
  std::optional<DType> NarrowArgument() const;
  // The node of an argument, kNone when it is missing or None; and its tree.
  uint32_t Find(size_t position, std::string_view name) const;
  const dump::EntryTree& tree() const { return forward_; }

  // ---- communication: the same call on all ranks of its group ----
  void SetOthers(OtherCalls others) { others_ = std::move(others); }
  size_t PeerCount();  // 0 with a problem of the call where they are not in the dump
  size_t OwnPlace() const { return peers_ ? peers_->own : 0; }
  bool GroupIsTold() const { return peers_ && peers_->group_is_told; }
  // The place of a rank in the group; a problem of the call, and 0, where it is none of it.
  size_t PlaceOf(int64_t rank);
  Value PeerTensor(size_t peer, size_t position, std::string_view name);
  std::vector<Value> PeerTensors(size_t peer, size_t position, std::string_view name);
  std::vector<int64_t> PeerInts(size_t peer, size_t position, std::string_view name);
  // The tensors that other ranks sent to it, in the order of its receives.
  std::vector<CapturedTensor> Sent();

  // ---- the call of the same name one step later ----
  Call* Later();  // null with a problem of the call where it is not in the dump
  // Makes the tensors of these argument lists of it the outputs of this call, whose results it
  // began with.
  void TakeOutputsFromLater(const std::vector<size_t>& positions);

  // ---- results ----
  // Every tensor below a member ("output", "input") of an entry, in order.
  std::vector<CapturedTensor> ReadAll(const dump::EntryTree& entry, std::string_view member);
  const std::vector<CapturedTensor>& outputs();
  // Wants gradients of every floating argument from now on.
  void WantGradients() { wants_gradients_ = true; }
  // Tensors that were asked for, in the order of their first use.
  const std::vector<Value>& used() const { return used_; }
  // Elements of all tensors that were read.
  const uint64_t* loaded() const { return &loaded_; }
  // Why the first tensor file that could not be read could not; empty where all could.
  const std::string& unreadable() const { return unreadable_; }

 private:
  CapturedTensor Read(const dump::EntryTree& tree, uint32_t index, std::string name) const;
  // The result of `read` for the same call on another rank.
  template <typename Reader>
  auto OfPeer(size_t peer, const Reader& read) -> decltype(read(*this));

  const dump::EntryTree& forward_;
  const TensorSource tensors_;
  std::string problem_;
  bool wants_gradients_ = false;
  mutable uint64_t loaded_ = 0;
  mutable std::string unreadable_;
  std::map<uint32_t, CapturedTensor> arguments_;  // by node of the forward entry
  std::optional<std::vector<CapturedTensor>> outputs_;
  std::vector<Value> used_;
  OtherCalls others_;
  std::optional<PeerCalls> peers_;
  std::optional<LaterCall> later_entry_;
  std::unique_ptr<Call> later_;
};

}  // namespace msprobe::reference
