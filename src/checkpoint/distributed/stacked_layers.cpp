#include "src/checkpoint/distributed/stacked_layers.h"

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace msprobe::checkpoint {
namespace {

// Real models stay far below; the facts and the shapes come from files.
constexpr int64_t kMostParts = 10'000;
constexpr int64_t kMostPieces = 1'000'000;

// How many parts all stacks may become, and how many bytes their names and messages may take. A
// stack may repeat one element, have none, or stand in no file.
constexpr uint64_t kFreeParts = 100'000;
constexpr uint64_t kFreePartTextBytes = uint64_t{64} << 20U;
constexpr uint64_t kFileBytesPerPart = 64;

class PartBudget {
 public:
  explicit PartBudget(uint64_t file_bytes)
      : parts_left_(kFreeParts + file_bytes / kFileBytesPerPart),
        text_bytes_left_(kFreePartTextBytes + file_bytes) {}

  // Whether `whole` may become `count` parts.
  bool Take(const Parameter& whole, int64_t count) {
    constexpr uint64_t kNumberBytes = 32;
    uint64_t text_bytes = whole.name.size() + kNumberBytes + whole.status.message().size();
    for (const std::string& note : whole.notes) {
      text_bytes += note.size();
    }
    const auto parts = static_cast<uint64_t>(count);
    if (parts > parts_left_ || text_bytes > text_bytes_left_ / parts) {
      return false;
    }
    parts_left_ -= parts;
    text_bytes_left_ -= text_bytes * parts;
    return true;
  }

 private:
  uint64_t parts_left_;
  uint64_t text_bytes_left_;
};

// A word in a name behind which the number of the part is missing, and what to write there.
struct Stack {
  std::string_view word;
  std::string_view numbered;  // with the number behind it
};
constexpr Stack kLayers = {".layers.", ".layers."};
constexpr Stack kExperts = {".experts.experts.", ".experts.local_experts."};

std::string NameOfPart(std::string_view name, size_t at, const Stack& stack, int64_t number) {
  return fmt::format("{}{}{}.{}", name.substr(0, at), stack.numbered, number,
                     name.substr(at + stack.word.size()));
}

bool CanSplit(const Parameter& parameter, int64_t count) {
  if (count < 1 || count > kMostParts || parameter.shape.empty() || parameter.shape[0] != count) {
    return false;
  }
  int64_t pieces = 0;
  for (const Piece& piece : parameter.pieces) {
    pieces += piece.view.shape[0];
    if (pieces > kMostPieces) {
      return false;
    }
  }
  // Every part looks at every piece.
  return static_cast<int64_t>(parameter.pieces.size()) <= 100 * kMostPieces / count;
}

// Appends the parts, or the parameter itself where it is no stack.
void Split(Parameter parameter, std::optional<int64_t> count, const Stack& stack,
           PartBudget& budget, std::vector<Parameter>& out) {
  const size_t at = parameter.name.find(stack.word);
  const size_t after = at + stack.word.size();
  if (!count || at == std::string::npos || after >= parameter.name.size() ||
      std::isdigit(static_cast<unsigned char>(parameter.name[after])) != 0 ||
      !CanSplit(parameter, *count) || !budget.Take(parameter, *count)) {
    out.push_back(std::move(parameter));
    return;
  }
  for (int64_t number = 0; number < *count; ++number) {
    // Cannot fail: the number is below the size of axis 0.
    Result<Parameter> part = Select(parameter, number);
    if (part.ok()) {
      part->name = NameOfPart(parameter.name, at, stack, number);
      out.push_back(*std::move(part));
    }
  }
}

}  // namespace

std::vector<Parameter> SplitStackedLayers(std::vector<Parameter> parameters,
                                          const ModelFacts& facts, uint64_t file_bytes) {
  PartBudget budget(file_bytes);
  std::vector<Parameter> layers;
  for (Parameter& parameter : parameters) {
    Split(std::move(parameter), facts.layers, kLayers, budget, layers);
  }
  std::vector<Parameter> experts;
  for (Parameter& parameter : layers) {
    Split(std::move(parameter), facts.experts, kExperts, budget, experts);
  }
  return experts;
}

}  // namespace msprobe::checkpoint
