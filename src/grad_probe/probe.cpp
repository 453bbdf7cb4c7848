#include "src/grad_probe/probe.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/grad_probe/measure.h"
#include "src/grad_probe/summary_row.h"
#include "src/io/npy.h"
#include "src/kernels/signs.h"

namespace msprobe::grad_probe {
namespace {

constexpr uint64_t kMostWaitingBytes = uint64_t{1} << 28U;

bool Holds(const std::vector<int64_t>& numbers, int64_t number) {
  return numbers.empty() || std::binary_search(numbers.begin(), numbers.end(), number);
}

std::string HeaderOf(DType dtype, const Shape& shape) {
  return io::FormatNpyHeader(GetDTypeInfo(dtype).numpy_descr, shape);
}

// The shape as an array of int64, little-endian as all that is written.
std::string ShapeMember(const Shape& shape) {
  std::string member = HeaderOf(DType::kInt64, {static_cast<int64_t>(shape.size())});
  member.append(reinterpret_cast<const char*>(shape.data()), shape.size() * sizeof(int64_t));
  return member;
}

}  // namespace

Probe::Probe(Settings settings) : settings_(std::move(settings)), files_(kMostWaitingBytes) {}

bool Probe::Selects(int64_t rank, int64_t step, bool& finished) const {
  finished = (!settings_.steps.empty() && step > settings_.steps.back()) ||
             (rank >= 0 && !Holds(settings_.ranks, rank));
  return !finished && Holds(settings_.steps, step);
}

Status Probe::BeginStep(int64_t rank, int64_t step) {
  const base::Path folder = base::WithoutLastSlash(settings_.dump_path) /
                            fmt::format("rank{}", std::max<int64_t>(rank, 0));
  table_.clear();
  rows_ = HeaderLine(settings_.level, settings_.bounds);
  signs_folder_ = folder / fmt::format("step{}", step);
  MSP_RETURN_IF_ERROR(base::CreateFolders(settings_.level == Level::kL0 ? folder : signs_folder_));
  const base::Path table = folder / fmt::format("grad_summary_{}.csv", step);
  std::error_code error;
  std::filesystem::remove(table, error);
  if (error) {
    return IoError(
        fmt::format("cannot remove {} of an earlier run: {}", table.string(), error.message()));
  }
  table_ = table;
  return {};
}

Status Probe::Put(std::string_view name, const TensorView& gradient) {
  if (table_.empty()) {
    return UsageError("no step is in progress");
  }
  const bool has_signs = settings_.level != Level::kL0;
  std::vector<std::byte> signs(has_signs ? static_cast<size_t>(gradient.element_count()) : 0);
  MSP_ASSIGN_OR_RETURN(
      const Numbers numbers,
      Measure(gradient, settings_.level, settings_.bounds, has_signs ? signs.data() : nullptr),
      name);
  AppendRow(name, numbers, gradient.shape, settings_.level, rows_);
  if (!has_signs) {
    return {};
  }
  const bool is_packed = settings_.sign_format == SignFormat::kPacked;
  std::string file_name = base::ReplaceAll(name, "/", "_") + (is_packed ? ".npz" : ".npy");
  if (file_name.size() > base::kLongestNameBytes) {
    return IoError(
        fmt::format("the signs of {} are not written: its name is too long for a file", name));
  }
  NewFile file{signs_folder_ / std::move(file_name), {}, {}};
  if (is_packed) {
    file.data.resize((signs.size() + 7) / 8);
    kernels::PackFlags(signs, file.data);
    file.head = HeaderOf(DType::kUInt8, {static_cast<int64_t>(file.data.size())});
    file.shape_member = ShapeMember(gradient.shape);
  } else {
    file.head = HeaderOf(DType::kBool, gradient.shape);
    file.data = std::move(signs);
  }
  files_.Add(std::move(file));
  return {};
}

Status Probe::EndStep() {
  if (!table_.empty()) {
    files_.Add({std::exchange(table_, {}), std::exchange(rows_, {}), {}});
  }
  return files_.TakeError();
}

}  // namespace msprobe::grad_probe
