// Compares the gradient directions of two runs: `msprobe grad_compare`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

#include "src/report/document.h"

namespace msprobe::analysis::grad {

struct Options {
  std::filesystem::path first;
  std::filesystem::path second;
  std::filesystem::path output = "./msprobe_compare_output";
  // A step stands out when fewer signs agree than this at the first step, ...
  double min_similarity = 0.97;
  // ... or when the share has dropped by more than this since the step before.
  double max_drop = 0.03;
  size_t threads = 0;
  bool quiet = false;
};

// The signs of one gradient as the task grad_probe stored them: a bool array (.npy, .pt), or bits
// in a .npz whose members are `bits` (uint8, as numpy.packbits has them) and `shape` (int64).

class SignFile {
 public:
  // Elements read at a time: whole bytes of bits.
  static constexpr size_t kBlockElements = size_t{1} << 16U;

  struct Scratch {
    std::vector<std::byte> flags;
    std::vector<std::byte> bits;
  };

  // kBadFormat where it is neither, or holds fewer bits than its shape has elements. `scratch`
  // outlives the file.
  static Result<SignFile> Open(const std::filesystem::path& path, std::vector<std::byte>& scratch);

  const Shape& shape() const { return shape_; }
  bool is_packed() const { return is_packed_; }
  uint64_t size_bytes() const { return file_.size_bytes(); }

  // Elements [first, first + count), a byte each; not of a packed file.
  std::span<const std::byte> Flags(size_t first, size_t count, Scratch& scratch) const;
  // A bit each, the first in the highest bit; `first` is a multiple of 8.
  std::span<const std::byte> Bits(size_t first, size_t count, Scratch& scratch) const;
  // The elements are not needed any more.
  void Release(size_t first, size_t count) const;

 private:
  SignFile(TensorFile file, TensorView view, Shape shape, bool is_packed);

  TensorFile file_;
  TensorView view_;
  Shape shape_;
  bool is_packed_;
};

// The signs of one parameter's gradient at one step, or of all.
struct Agreement {
  uint64_t equal = 0;
  uint64_t elements = 0;

  // 0 of no elements.
  double similarity() const {
    return elements == 0 ? 0 : static_cast<double>(equal) / static_cast<double>(elements);
  }
};

// One row of similarities.csv: an agreement per step of the rank, none where the parameter could
// not be compared.
struct Row {
  std::string name;
  std::vector<std::optional<Agreement>> steps;
  std::optional<size_t> marked = {};  // the first step (by position) that stands out
  // Nothing but rounding in every step, as the gradient of a bias in front of a softmax or of a
  // normalisation: its signs are chance, and never stand out.
  bool is_rounding = false;
};

struct RankComparison {
  int64_t rank = 0;
  std::vector<int64_t> steps;
  std::vector<Row> parameters;  // in the order of the run's own table
  Row summary;                  // all parameters together
  std::filesystem::path file;
};

struct Comparison {
  std::vector<RankComparison> ranks;
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;
  Options options;
  uint64_t bytes = 0;
  size_t failed = 0;  // gradients that could not be compared
};

// Sums the parameters up, and marks the first step of every row that stands out.
void Judge(RankComparison& rank, const Options& options);

// Pairs of gradients of all ranks that could be compared.
uint64_t ComparedPairs(const Comparison& comparison);

// A whole comparison of the directions that two runs' gradients had, as the task grad_probe wrote
// them: from folders to one similarities.csv per rank.

// kNotFound where the runs have no rank with a step in common. Progress goes to stderr unless
// options.quiet.
Result<Comparison> Run(const Options& options);

inline constexpr std::array<report::GateLevel, 2> kGateLevels = {
    {{"diverged", "a step where too few signs of all parameters together agree"},
     {"parameter",
      "a step where too few signs of one parameter agree, or a gradient that could "
      "not be compared"}}};

report::Document MakeDocument(const Comparison& comparison);

}  // namespace msprobe::analysis::grad
