// The inert pickle interpreter: runs the stack machine of protocols 0 to 5 and records what would
// be called, with what. It calls nothing, imports nothing and opens nothing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/io/contents.h"
#include "src/io/pickle_value.h"

namespace msprobe::io {

// Values that every pickle shares instead of making them anew.
inline constexpr PickleId kPickleNone = 0;
inline constexpr PickleId kPickleFalse = 1;
inline constexpr PickleId kPickleTrue = 2;
inline constexpr PickleId kPickleEmptyTuple = 3;

struct PickleLimits {
  // For a pickle that takes `stored_bytes` of its file. One that lies there as it is never meets
  // them; a compressed one may take 128 MiB and 64 times its size in the file, not thousands.
  static PickleLimits ForStored(uint64_t stored_bytes);

  uint64_t pickle_bytes = uint64_t{1} << 30U;
  size_t values = 50'000'000;  // distinct values
  size_t stack_and_memo = 50'000'000;
  size_t items = 200'000'000;   // slots of all containers together
  size_t long_bytes = 1 << 20;  // digits or bytes of one integer
};

class PickleReader {
 public:
  // Reads one pickle from the front of `bytes`, which must outlive the result (texts are borrowed).
  // Data after STOP is left alone. Errors are kBadFormat and name the byte.
  static Result<Pickle> Read(std::span<const std::byte> bytes, const PickleLimits& limits = {});

 private:
  PickleReader(std::span<const std::byte> bytes, const PickleLimits& limits);

  Status Run();
  Status Step(uint8_t opcode);
  Status StepNumber(uint8_t opcode);
  Status StepText(uint8_t opcode);
  Status StepContainer(uint8_t opcode);
  Status StepMemo(uint8_t opcode);
  Status StepObject(uint8_t opcode);

  Status Bad(std::string_view what) const;

  // Operands.
  Status Take(uint64_t count, const std::byte** out);
  template <typename Integer>
  Status TakeInteger(Integer* out);
  Status TakeLine(std::string_view* out);
  Status TakeCountedText(uint64_t count, std::string_view* out);

  // Stack.
  size_t Fence() const { return marks_.empty() ? 0 : marks_.back(); }
  Status Need(size_t count) const;
  Status Push(PickleId id);
  PickleId Pop();
  Status PopMark(std::vector<PickleId>* out);

  // Values.
  Result<PickleId> NewValue(Pickle::Value value);
  Status PushNew(Pickle::Value value);
  Status PushInteger(int64_t value);
  Status PushText(PickleKind kind, std::string_view text);
  Status ChargeText(size_t text_bytes);
  Status PushOwnedText(PickleKind kind, std::string text);
  Status PushLong(std::string_view little_endian);
  Status PushDecimal(std::string_view line);
  Status PushGlobal(std::string_view name);
  Result<PickleId> NewSequence(PickleKind kind, std::span<const PickleId> items);
  Status AppendItems(PickleId container, std::span<const PickleId> items);
  Status SetItems(PickleId target, std::span<const PickleId> pairs);
  Status ListItems(PickleId target, std::span<const PickleId> items);
  Status AddItems(PickleId target, std::span<const PickleId> items);
  Status Memoize(uint64_t index);
  Status Recall(uint64_t index);

  // The value that stands for a call.
  Status Call(PickleId callee, PickleId arguments, PickleId keyword_arguments);
  Status CallDict(PickleGlobal callee, std::span<const PickleId> arguments);
  Status CallSequence(PickleKind kind, std::span<const PickleId> arguments);
  Status CallEncode(std::span<const PickleId> arguments, bool* understood);
  Status Build(PickleId target, PickleId state);

  std::span<const std::byte> bytes_;
  PickleLimits limits_;
  size_t at_ = 0;               // next byte
  size_t opcode_at_ = 0;        // for messages
  uint64_t decoded_bytes_ = 0;  // of texts that were decoded or copied
  Pickle pickle_;
  std::vector<PickleId> stack_;
  std::vector<size_t> marks_;
  std::vector<PickleId> popped_;  // scratch of mark-delimited opcodes
  std::vector<PickleId> memo_;    // indices 0, 1, 2, ... as every writer counts
  std::unordered_map<uint64_t, PickleId, SpreadHash> sparse_memo_;  // any other index
};

template <typename Integer>
Status PickleReader::TakeInteger(Integer* out) {
  const std::byte* operand = nullptr;
  MSP_RETURN_IF_ERROR(Take(sizeof(Integer), &operand));
  *out = LoadLittle<Integer>(operand);
  return {};
}

}  // namespace msprobe::io
