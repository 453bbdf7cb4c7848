#include "src/grad_probe/probe.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/grad_probe/measure.h"
#include "src/grad_probe/summary_row.h"
#include "src/io/npy.h"

namespace msprobe::grad_probe {
namespace {

constexpr uint64_t kMostWaitingBytes = uint64_t{1} << 28U;
constexpr std::string_view kSignsEnding = ".npy";

bool Holds(const std::vector<int64_t>& numbers, int64_t number) {
  return numbers.empty() || std::binary_search(numbers.begin(), numbers.end(), number);
}

}  // namespace

Probe::Probe(Settings settings) : settings_(std::move(settings)), files_(kMostWaitingBytes) {}

bool Probe::Selects(int64_t rank, int64_t step, bool& finished) const {
  finished = (!settings_.steps.empty() && step > settings_.steps.back()) ||
             (rank >= 0 && !Holds(settings_.ranks, rank));
  return !finished && Holds(settings_.steps, step);
}

Status Probe::BeginStep(int64_t rank, int64_t step) {
  const base::Path folder =
      base::Path(settings_.dump_path) / fmt::format("rank{}", std::max<int64_t>(rank, 0));
  table_.clear();
  rows_ = HeaderLine(settings_.level, settings_.bounds);
  signs_folder_ = folder / fmt::format("step{}", step);
  MSP_RETURN_IF_ERROR(base::CreateFolders(settings_.level == Level::kL0 ? folder : signs_folder_));
  const base::Path table = folder / fmt::format("grad_summary_{}.csv", step);
  std::error_code error;
  std::filesystem::remove(table, error);
  if (error) {
    return IoError(fmt::format("cannot remove {} of an earlier run: {}", table.string(),
                               error.message()));
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
  MSP_ASSIGN_OR_RETURN(const Numbers numbers,
                       Measure(gradient, settings_.level, settings_.bounds,
                               has_signs ? signs.data() : nullptr),
                       name);
  AppendRow(name, numbers, gradient.shape, settings_.level, rows_);
  if (!has_signs) {
    return {};
  }
  std::string file_name = base::ReplaceAll(name, "/", "_") + std::string(kSignsEnding);
  if (file_name.size() > base::kLongestNameBytes) {
    return IoError(fmt::format("the signs of {} are not written: its name is too long for a file",
                               name));
  }
  files_.Add(signs_folder_ / std::move(file_name),
             io::FormatNpyHeader(GetDTypeInfo(DType::kBool).numpy_descr, gradient.shape),
             std::move(signs));
  return {};
}

Status Probe::EndStep() {
  if (!table_.empty()) {
    files_.Add(std::exchange(table_, {}), std::exchange(rows_, {}), {});
  }
  return files_.TakeError();
}

}  // namespace msprobe::grad_probe
