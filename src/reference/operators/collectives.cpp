// Communication: results that are made of the inputs of all ranks of a group. Sums may be taken in
// any order and in the type of the tensors; everything else is handed on bit by bit.
#include <algorithm>
#include <cmath>
#include <string>

#include "src/dump/communication.h"
#include "src/reference/operators/operators.h"

namespace msprobe::reference {

namespace {

// Tensors of one shape, one behind the other along a new first dim.
Value Stacked(Call& call, const Arithmetic& m, const Values& tensors) {
  if (call.failed() || tensors.empty()) {
    return nullptr;
  }
  Shape shape = tensors[0]->shape;
  if (std::any_of(tensors.begin(), tensors.end(),
                  [&](const Value& tensor) { return tensor->shape != shape; })) {
    return call.Fail("the tensors of its ranks have different shapes");
  }
  shape.insert(shape.begin(), static_cast<int64_t>(tensors.size()));
  if (!m.Affords(shape)) {
    return nullptr;
  }
  std::vector<int64_t> indices(static_cast<size_t>(ElementCount(shape)));
  for (size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<int64_t>(i);
  }
  return m.Take(tensors, shape, std::move(indices));
}

// An argument of all ranks, in the order of the group.
Values OfAll(Call& call, size_t position, std::string_view name) {
  Values tensors;
  const size_t count = call.PeerCount();
  for (size_t peer = 0; peer < count && !call.failed(); ++peer) {
    tensors.push_back(call.PeerTensor(peer, position, name));
  }
  return tensors;
}

// Where every rank passes a list with one tensor per rank: the tensors for this rank.
Values ForThisRank(Call& call, size_t position, std::string_view name) {
  Values tensors;
  const size_t count = call.PeerCount();
  for (size_t peer = 0; peer < count && !call.failed(); ++peer) {
    const Values list = call.PeerTensors(peer, position, name);
    if (call.failed() || list.size() != count) {
      call.Fail("a rank does not give one tensor to each of its group");
      break;
    }
    tensors.push_back(list[call.OwnPlace()]);
  }
  return tensors;
}

// Over the first dim.
Value Reduced(Call& call, const Arithmetic& m, const Value& stacked, const std::string& operation) {
  if (stacked == nullptr) {
    return nullptr;
  }
  if (operation == "SUM") {
    return m.Sum(stacked, {0}, false);
  }
  const auto ranks = static_cast<double>(stacked->shape[0]);
  if (operation == "AVG") {
    return m.Divide(m.Sum(stacked, {0}, false), m.Filled({}, ranks));
  }
  if (operation != "MAX" && operation != "MIN") {
    return call.Fail("this reduction is not recomputed");
  }
  const size_t size = stacked->size() / static_cast<size_t>(stacked->shape[0]);
  std::vector<int64_t> best(size);
  for (size_t i = 0; i < size; ++i) {
    best[i] = static_cast<int64_t>(i);
    for (size_t at = i + size; at < stacked->size(); at += size) {
      const double champion = stacked->value[static_cast<size_t>(best[i])];
      if (operation == "MAX" ? stacked->value[at] > champion : stacked->value[at] < champion) {
        best[i] = static_cast<int64_t>(at);
      }
    }
  }
  return m.Take({stacked}, Shape(stacked->shape.begin() + 1, stacked->shape.end()),
                std::move(best));
}

// "RedOpType.SUM" of PyTorch, "ReduceOp.SUM" and plain "sum" of others.
std::string OperationOf(Call& call, size_t position) {
  std::string text = call.Text(position, "op", "SUM");
  text = text.substr(text.rfind('.') + 1);
  std::transform(text.begin(), text.end(), text.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  });
  return text;
}

// If the dump does not record the group, ranks may be missing: a result that fits is right, one
// that does not fit proves nothing.
Values OfGroup(Call& call, Values results) {
  if (call.failed() || call.GroupIsTold()) {
    return results;
  }
  const std::vector<CapturedTensor>& outputs = call.outputs();
  for (size_t at = 0; at < results.size(); ++at) {
    const Value& result = results[at];
    if (result == nullptr) {
      continue;
    }
    if (at >= outputs.size() || outputs[at].value == nullptr ||
        outputs[at].value->shape != result->shape) {
      return {call.Fail("its group is not in the dump")};
    }
    for (size_t i = 0; i < result->size(); ++i) {
      const double off = result->value[i] - outputs[at].value->value[i];
      if (!(std::fabs(off) <= 1e-2 * std::fabs(result->value[i]) + 1e-30)) {
        return {call.Fail("its group is not in the dump, and is not all ranks that are")};
      }
    }
  }
  return results;
}

Values AllReduce(Call& call, const Arithmetic& m) {
  const Value stacked = Stacked(call, m, OfAll(call, 0, "tensor"));
  return OfGroup(call, {Reduced(call, m, stacked, OperationOf(call, 1))});
}

// reduce(tensor, dst, op)
Values Reduce(Call& call, const Arithmetic& m) {
  const int64_t to = call.Int(1, "dst");
  if (call.PeerCount() == 0 || call.PlaceOf(to) != call.OwnPlace()) {
    return {call.Fail("only the rank that it goes to has a result")};
  }
  const Value stacked = Stacked(call, m, OfAll(call, 0, "tensor"));
  return OfGroup(call, {Reduced(call, m, stacked, OperationOf(call, 2))});
}

// broadcast(tensor, src)
Values Broadcasted(Call& call, const Arithmetic& /*m*/) {
  const size_t from = call.PlaceOf(call.Int(1, "src"));
  return OfGroup(call, {call.PeerTensor(from, 0, "tensor")});
}

// all_gather(tensor_list, tensor)
Values AllGather(Call& call, const Arithmetic& /*m*/) {
  return OfGroup(call, OfAll(call, 1, "tensor"));
}

// gather(tensor, gather_list, dst): its outputs begin with its own tensor.
Values GatherToOne(Call& call, const Arithmetic& /*m*/) {
  if (call.PeerCount() == 0 || call.PlaceOf(call.Int(2, "dst", 0)) != call.OwnPlace()) {
    return {call.Fail("only the rank that it goes to has a result")};
  }
  Values results = OfAll(call, 0, "tensor");
  results.insert(results.begin(), nullptr);
  return OfGroup(call, std::move(results));
}

// scatter(tensor, scatter_list, src)
Values ScatterFromOne(Call& call, const Arithmetic& /*m*/) {
  const size_t from = call.PlaceOf(call.Int(2, "src", 0));
  const Values parts = call.PeerTensors(from, 1, "scatter_list");
  if (call.failed() || parts.size() != call.PeerCount()) {
    return {call.Fail("a rank does not give one tensor to each of its group")};
  }
  return OfGroup(call, {parts[call.OwnPlace()]});
}

// reduce_scatter(output, input_list, op)
Values ReduceScatter(Call& call, const Arithmetic& m) {
  const Value stacked = Stacked(call, m, ForThisRank(call, 1, "input_list"));
  return OfGroup(call, {Reduced(call, m, stacked, OperationOf(call, 2))});
}

// all_to_all(output_tensor_list, input_tensor_list)
Values AllToAll(Call& call, const Arithmetic& /*m*/) {
  return OfGroup(call, ForThisRank(call, 1, "input_tensor_list"));
}

// all_to_all_single(output, input, output_split_sizes, input_split_sizes): the parts for this rank,
// one behind the other along the first dim.
Values AllToAllSingle(Call& call, const Arithmetic& m) {
  const Values inputs = OfAll(call, 1, "input");
  const auto count = static_cast<int64_t>(inputs.size());
  if (call.failed() || inputs.empty()) {
    return {nullptr};
  }
  Shape shape = inputs[0]->shape;
  int64_t rows = 0;
  std::vector<int64_t> indices;
  int64_t before = 0;  // elements of the inputs in front of this one
  for (size_t peer = 0; peer < inputs.size(); ++peer) {
    const Value& input = inputs[peer];
    if (shape.empty() || input->shape.size() != shape.size() ||
        !std::equal(shape.begin() + 1, shape.end(), input->shape.begin() + 1)) {
      return {call.Fail("the tensors of its ranks have different shapes")};
    }
    std::vector<int64_t> sizes = call.PeerInts(peer, 3, "input_split_sizes");
    if (sizes.empty()) {
      sizes.assign(inputs.size(), input->shape[0] / count);
    }
    int64_t left = input->shape[0];
    bool divides = sizes.size() == inputs.size();
    for (const int64_t size : sizes) {
      divides = divides && size >= 0 && size <= left;
      left -= divides ? size : 0;
    }
    if (!divides || left != 0) {
      return {call.Fail("its input does not divide among its ranks")};
    }
    int64_t first = 0;
    for (size_t i = 0; i < call.OwnPlace(); ++i) {
      first += sizes[i];
    }
    const int64_t size = sizes[call.OwnPlace()];
    const auto elements = static_cast<int64_t>(input->size());
    const int64_t row = elements == 0 ? 0 : elements / input->shape[0];
    for (int64_t i = 0; i < size * row; ++i) {
      indices.push_back(before + first * row + i);
    }
    rows += size;
    before += elements;
  }
  shape[0] = rows;
  return OfGroup(call, {m.Take(inputs, shape, std::move(indices))});
}

// Inputs one behind the other along the first dim, into one tensor.
Values AllGatherIntoTensor(Call& call, const Arithmetic& m) {
  const Value stacked = Stacked(call, m, OfAll(call, 1, "input_tensor"));
  if (stacked == nullptr) {
    return {nullptr};
  }
  // The output may be of the gathered shape or of the stacked one; the input may follow it.
  const std::vector<CapturedTensor>& outputs = call.outputs();
  if (outputs.empty() || outputs[0].value == nullptr ||
      outputs[0].value->size() != stacked->size()) {
    return {call.Fail("its output is not what its ranks gave")};
  }
  return OfGroup(call, {m.Reshape(stacked, outputs[0].value->shape)});
}

// This rank's part of the sum of all ranks' inputs.
Values ReduceScatterTensor(Call& call, const Arithmetic& m) {
  const Value stacked = Stacked(call, m, OfAll(call, 1, "input"));
  const Value sum = Reduced(call, m, stacked, OperationOf(call, 2));
  if (sum == nullptr) {
    return {nullptr};
  }
  const auto ranks = static_cast<int64_t>(call.PeerCount());
  if (sum->shape.empty() || ranks == 0 || sum->shape[0] % ranks != 0) {
    return {call.Fail("its input does not divide among its ranks")};
  }
  Shape shape = sum->shape;
  shape[0] /= ranks;
  const int64_t size = ElementCount(shape);
  std::vector<int64_t> indices(static_cast<size_t>(size));
  for (size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<int64_t>(call.OwnPlace()) * size + static_cast<int64_t>(i);
  }
  return OfGroup(call, {m.Take({sum}, shape, std::move(indices))});
}

}  // namespace

OperatorList CollectiveOperators() {
  return {
      {"all_reduce", AllReduce, Rounds::kSteps},
      {"reduce", Reduce, Rounds::kSteps},
      {"broadcast", Broadcasted},
      {"all_gather", AllGather},
      {"all_gather_into_tensor _all_gather_base", AllGatherIntoTensor},
      {"gather", GatherToOne},
      {"scatter", ScatterFromOne},
      {"reduce_scatter", ReduceScatter, Rounds::kSteps},
      {"reduce_scatter_tensor _reduce_scatter_base", ReduceScatterTensor, Rounds::kSteps},
      {"all_to_all", AllToAll},
      {"all_to_all_single", AllToAllSingle},
  };
}

// Messages between two ranks: every bit that was sent arrives.

namespace {

// The sent tensor, in the shape in which it was received.
Value Arrived(Call& call, const Arithmetic& m, const CapturedTensor& sent,
              const CapturedTensor& received) {
  if (received.value == nullptr) {
    return call.Fail(received.problem);
  }
  if (sent.value->size() != received.value->size() || sent.dtype != received.dtype) {
    return call.Fail("it received another number or type of elements than was sent");
  }
  return m.Reshape(sent.value, received.value->shape);
}

// Its messages in order: those it sent are unchanged, the others are as their senders sent them.
Values Messages(Call& call, const Arithmetic& m, std::string_view api) {
  using dump::Transfer;
  const std::vector<Transfer> messages =
      dump::ReadCommunication(api, call.tree(), dump::MatchRules::kLibraries).transfers;
  const std::vector<CapturedTensor>& outputs = call.outputs();
  if (messages.empty() || outputs.size() != messages.size() ||
      std::any_of(messages.begin(), messages.end(), [](const Transfer& message) {
        return message.tensor == dump::EntryTree::kNone;
      })) {
    return {call.Fail("its arguments are not those that its API has")};
  }
  const bool receives = std::any_of(messages.begin(), messages.end(),
                                    [](const Transfer& message) { return !message.sends; });
  const std::vector<CapturedTensor> sent = receives ? call.Sent() : std::vector<CapturedTensor>();
  Values results;
  size_t arrived = 0;
  for (size_t i = 0; i < messages.size() && !call.failed(); ++i) {
    if (messages[i].sends) {
      results.push_back(call.TensorAt(messages[i].tensor, "tensor"));
    } else if (arrived < sent.size()) {
      results.push_back(Arrived(call, m, sent[arrived++], outputs[i]));
    }
  }
  return results;
}

Values Receiving(Call& call, const Arithmetic& m) { return Messages(call, m, "recv"); }
Values Sending(Call& call, const Arithmetic& m) { return Messages(call, m, "send"); }
Values Batched(Call& call, const Arithmetic& m) { return Messages(call, m, "batch_isend_irecv"); }

}  // namespace

OperatorList PointToPointOperators() {
  return {{"send isend", Sending}, {"recv irecv", Receiving}, {"batch_isend_irecv", Batched}};
}

}  // namespace msprobe::reference
