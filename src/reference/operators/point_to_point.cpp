// Messages between two ranks: every bit that was sent arrives.
#include <algorithm>

#include "src/dump/communication.h"
#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

// What was sent, in the shape that it was received in.
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

// Of its messages, in order, those that it sent are as they were, and the others as they were sent.
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
