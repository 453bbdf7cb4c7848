// Which tensors of a call are which tensors of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// Statistics that were computed elsewhere differ by roundings; those of other tensors by far more.
inline constexpr double kSameTensor = 1e-3;

// The tensors of one call, and the kernel rows that stand for them.
struct CallMatch {
  struct Row {
    uint32_t kernel = 0;  // indices into Side::rows
    uint32_t call = 0;
    double distance = 0;  // relative, of the statistics
  };
  uint32_t entry = 0;     // of the call
  std::vector<Row> rows;  // by kernel row
  size_t tensors = 0;     // of the call
  bool has_output = false;
  double farthest = 0;  // the largest distance
};

// Each tensor of a call has the kernel tensor beside it that has its shape (axes of size 1 aside)
// and direction and the nearest statistics. Of equally near ones the one of the same dtype, then
// the first kernel that read an input, the last one that wrote an output.
class CallFinder {
 public:
  // Kernel tensors of one shape and direction, with statistics of their own each, beside which a
  // tensor of a call is put: the first ones of that shape.
  static constexpr size_t kMostAlike = 10'000;

  // Both must outlive this.
  CallFinder(const Side& kernels, const Side& calls);
  CallMatch Match(uint32_t entry) const;  // an index into calls.entries
  // Kernel tensors beyond kMostAlike, which are not looked at.
  size_t left_out() const { return left_out_; }
  std::string LeftOutText() const;  // a warning of them

 private:
  // Kernel rows that differ in nothing that is looked at: of shape, direction, dtype and
  // statistics.
  struct Alike {
    std::vector<uint32_t> rows;  // ascending
    std::optional<DType> dtype;
  };
  using Place = std::pair<Shape, bool>;  // without ones; whether an output
  // How many kernel rows of each group belong to rows of the call.
  using Taken = std::unordered_map<uint32_t, uint32_t>;

  // The kernel row for a row of the call, kNoRow if there is none; it is counted in `taken`.
  uint32_t Nearest(const SideRow& row, Taken& taken, double& nearest) const;

  const Side& kernels_;
  const Side& calls_;
  std::vector<Alike> groups_;
  std::map<Place, std::vector<uint32_t>> groups_of_;  // into groups_
  size_t left_out_ = 0;
};

// "[2, 3]" of a row; nothing for what is no list of sizes.
std::optional<Shape> ShapeOfText(std::string_view text);

}  // namespace msprobe::analysis::compare
