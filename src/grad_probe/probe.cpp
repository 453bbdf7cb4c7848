#include "src/grad_probe/probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/csv.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/base/utf8.h"
#include "src/io/npy.h"
#include "src/io/tensor_output.h"
#include "src/io/zip.h"
#include "src/json/config.h"
#include "src/json/settings_table.h"
#include "src/kernels/convert.h"
#include "src/kernels/crc32.h"
#include "src/kernels/signs.h"
#include "src/kernels/stats.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"

namespace msprobe::grad_probe {
namespace {

using json::Config;
using json::Json;
using json::SettingsReader;

constexpr std::string_view kTask = "grad_probe";
constexpr std::array<json::Choice<Level>, 3> kLevels = {
    {{"L0", Level::kL0}, {"L1", Level::kL1}, {"L2", Level::kL2}}};
constexpr std::array<json::Choice<SignFormat>, 2> kSignFormats = {
    {{"npy", SignFormat::kNpy}, {"packed", SignFormat::kPacked}}};
constexpr double kLargestBound = 0x1p63;
constexpr size_t kMostBounds = 4096;

struct Source {
  std::optional<Config> file;
  std::optional<Config> overrides;
};

Result<Source> Load(const base::Path& config_path, std::string_view overrides_json) {
  Source source;
  if (!config_path.empty()) {
    MSP_ASSIGN_OR_RETURN(source.file, json::LoadJsonConfig(config_path));
  }
  if (!overrides_json.empty()) {
    MSP_ASSIGN_OR_RETURN(
        source.overrides,
        json::ParseJsonConfig(overrides_json, "the arguments of PrecisionDebugger"));
  }
  return source;
}

Status ReadBounds(const SettingsReader& reader, std::string_view key, Settings& settings) {
  const Json* const value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_array()) {
    return reader.Error(*value, key,
                        fmt::format("is {}; allowed: a list of rising numbers, such as [-1, 0, 1]",
                                    json::ShownValue(*value)));
  }
  if (value->size() > kMostBounds) {
    return reader.Error(
        *value, key,
        fmt::format("has {} numbers; at most {} are allowed", value->size(), kMostBounds));
  }
  settings.bounds.clear();
  double before = -std::numeric_limits<double>::infinity();
  for (const Json& item : *value) {
    const bool whole = item.is_number_integer();
    if (!whole && !item.is_number_float()) {
      return reader.Error(item, key,
                          fmt::format("holds {}; allowed: numbers", json::ShownValue(item)));
    }
    if (!(json::NumberOf(item) >= -kLargestBound && json::NumberOf(item) < kLargestBound)) {
      return reader.Error(
          item, key,
          fmt::format("holds {}; allowed: numbers that fit into 64 bits", json::ShownValue(item)));
    }
    if (!(json::NumberOf(item) > before)) {
      return reader.Error(item, key,
                          fmt::format("holds {} behind a number that is not smaller: bounds rise",
                                      json::ShownValue(item)));
    }
    before = json::NumberOf(item);
    settings.bounds.push_back(
        {static_cast<double>(static_cast<float>(json::NumberOf(item))),
         whole ? std::to_string(json::IntOf(item)) : base::PythonFloatRepr(json::NumberOf(item))});
  }
  return {};
}

using Row = json::SettingsRow<Settings>;

// Keys of the configuration's top level; there are others, which belong to other tasks.
const std::vector<Row>& TopRows() {
  static const std::vector<Row> kRows = {{"dump_path", json::Text(&Settings::dump_path)},
                                         {"rank", json::NumberSet(&Settings::ranks)},
                                         {"step", json::NumberSet(&Settings::steps)}};
  return kRows;
}

const std::vector<Row>& SectionRows() {
  static const std::vector<Row> kRows = {
      {"grad_level", json::OneOf(&Settings::level, kLevels)},
      {"param_list", json::TextList(&Settings::parameters)},
      {"bounds", {ReadBounds, nullptr}},
      {"sign_format", json::OneOf(&Settings::sign_format, kSignFormats)}};
  return kRows;
}

Status ReadSource(const Config& config, Settings& settings) {
  if (!config.root().is_object()) {
    return config.ErrorAt(config.root(), "", "a configuration is an object");
  }
  const SettingsReader reader(config, config.root(), "");
  MSP_RETURN_IF_ERROR(json::ReadRows(TopRows(), reader, settings));
  const Json* const section = reader.Find(kTask);
  if (section == nullptr) {
    return {};
  }
  if (!section->is_object()) {
    return reader.Error(*section, kTask, "is " + json::ShownValue(*section) + ", not an object");
  }
  MSP_RETURN_IF_ERROR(config.CheckKeys(*section, json::KeyNames(SectionRows())));
  return json::ReadRows(SectionRows(), SettingsReader(config, *section, kTask), settings);
}

}  // namespace

bool IsGradProbe(const base::Path& config_path, std::string_view overrides_json) {
  const Result<Source> source = Load(config_path, overrides_json);
  if (!source.ok()) {
    return false;
  }
  for (const std::optional<Config>* const config : {&source->overrides, &source->file}) {
    if (!config->has_value() || !(*config)->root().is_object()) {
      continue;
    }
    const Json* const task = json::Find((*config)->root(), "task");
    if (task != nullptr && task->is_string() && !json::TextOf(*task).empty()) {
      return json::TextOf(*task) == kTask;
    }
  }
  return false;
}

Result<Settings> LoadSettings(const base::Path& config_path, std::string_view overrides_json) {
  MSP_ASSIGN_OR_RETURN(const Source source, Load(config_path, overrides_json));
  Settings settings;
  for (const std::optional<Config>* const config : {&source.file, &source.overrides}) {
    if (config->has_value()) {
      MSP_RETURN_IF_ERROR(ReadSource(**config, settings));
    }
  }
  if (settings.dump_path.empty()) {
    return UsageError("dump_path is not given")
        .WithHint("it names the folder for the gradients: \"dump_path\": \"./grad\"");
  }
  return settings;
}

namespace {

// Beyond so many bounds a search per element is quicker than a count per bound.
constexpr size_t kCountedBounds = 16;

// State that is kept between the blocks of one gradient, and from gradient to gradient.
struct Scratch {
  std::vector<std::byte> gathered;
  std::vector<float> floats;
  std::vector<double> doubles;
};

template <typename Value>
void CountIntervals(std::span<const Value> values, std::span<const Bound> bounds,
                    std::vector<uint64_t>& intervals) {
  if (bounds.size() > kCountedBounds) {
    for (const Value value : values) {
      // The first bound that is not below; NaN is at most none of them.
      const auto at = std::partition_point(bounds.begin(), bounds.end(), [&](const Bound& bound) {
        return !(static_cast<double>(value) <= bound.value);
      });
      ++intervals[static_cast<size_t>(at - bounds.begin())];
    }
    return;
  }
  uint64_t before = 0;
  for (size_t i = 0; i < bounds.size(); ++i) {
    const uint64_t at_most = kernels::CountAtMost(values, static_cast<Value>(bounds[i].value));
    intervals[i] += at_most - before;
    before = at_most;
  }
  intervals[bounds.size()] += values.size() - before;
}

}  // namespace

Result<Numbers> Measure(const TensorView& gradient, Level level, std::span<const Bound> bounds,
                        std::byte* signs) {
  const DType dtype = gradient.dtype;
  if (GetDTypeInfo(dtype).kind != DTypeKind::kFloat) {
    return UnsupportedError(
        fmt::format("gradients of {} have no direction", GetDTypeInfo(dtype).name));
  }
  thread_local Scratch scratch;
  Numbers numbers;
  numbers.element_count = static_cast<uint64_t>(gradient.element_count());
  numbers.intervals.assign(level == Level::kL2 ? bounds.size() + 1 : 0, 0);
  kernels::StatsPartial total;
  const auto use = [&](auto values, size_t first) {
    using Value = std::remove_const_t<typename decltype(values)::element_type>;
    const std::span<const Value> block = values;
    if (signs != nullptr) {
      kernels::PutPositive(block, {signs + first, block.size()});
    }
    if (level == Level::kL2) {
      CountIntervals(block, bounds, numbers.intervals);
    }
  };
  tensor::ForEachBlock(gradient, tensor::kSumBlockElements, scratch.gathered,
                       [&](std::span<const std::byte> block, size_t first) {
                         kernels::MergeStats(total, kernels::StatsOfBlock(dtype, block));
                         const size_t count = block.size() / DTypeSize(dtype);
                         if (dtype == DType::kFloat64 && level != Level::kL0) {
                           scratch.doubles.resize(count);
                           kernels::WidenToDouble(dtype, block, scratch.doubles);
                           use(std::span<const double>(scratch.doubles), first);
                           return;
                         }
                         scratch.floats.resize(count);
                         kernels::WidenToFloat(dtype, block, scratch.floats);
                         if (level == Level::kL0) {
                           numbers.crc32 = kernels::Crc32(std::as_bytes(std::span(scratch.floats)),
                                                          numbers.crc32);
                         } else {
                           use(std::span<const float>(scratch.floats), first);
                         }
                       });
  const kernels::TensorStats stats = kernels::FinishStats(total);
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  const auto rounded = [&](double value) {
    return tensor::RoundToDType(is_half ? dtype : DType::kFloat32, value);
  };
  numbers.max = rounded(stats.max);
  numbers.min = rounded(stats.min);
  numbers.norm = rounded(stats.norm);
  numbers.zero_count = stats.zero_count;
  return numbers;
}

namespace {

constexpr std::string_view kLineEnd = "\r\n";

}  // namespace

std::string HeaderLine(Level level, std::span<const Bound> bounds) {
  std::string line(base::kByteOrderMark);
  line += "param_name";
  if (level == Level::kL0) {
    line += ",MD5";
  }
  if (level == Level::kL2) {
    std::string before = "(-inf, ";
    for (const Bound& bound : bounds) {
      line += ',';
      base::AppendCsvText(before + bound.text + "]", line);
      before = "(" + bound.text + ", ";
    }
    line += ',';
    base::AppendCsvText(before + "inf)", line);
    line += ",=0";
  }
  line += ",max,min,norm,shape";
  line += kLineEnd;
  return line;
}

void AppendRow(std::string_view name, const Numbers& numbers, const Shape& shape, Level level,
               std::string& out) {
  base::AppendCsvText(name, out);
  if (level == Level::kL0) {
    out += fmt::format(",{:08x}", numbers.crc32);
  }
  const auto share = [&](uint64_t count) {
    out += ',';
    base::AppendPythonFloatRepr(
        numbers.element_count == 0
            ? 0
            : static_cast<double>(count) / static_cast<double>(numbers.element_count),
        out);
  };
  if (level == Level::kL2) {
    for (const uint64_t count : numbers.intervals) {
      share(count);
    }
    share(numbers.zero_count);
  }
  for (const double value : {numbers.max, numbers.min, numbers.norm}) {
    out += ',';
    base::AppendPythonFloatRepr(value, out);
  }
  out += ',';
  base::AppendCsvText(ShapeText(shape), out);
  out += kLineEnd;
}

namespace {

struct NewFile {
  base::Path path;
  std::string head;  // bytes in front of `data`
  std::vector<std::byte> data;
  // Not empty: a .npz with `head` and `data` as its member bits.npy, and this as shape.npy.
  std::string shape_member = {};

  uint64_t bytes() const { return head.size() + data.size() + shape_member.size(); }
};

// The file appears when complete, in place of an earlier one.
Status Write(const NewFile& file) {
  const base::NoFileSizeSignal no_signal;
  MSP_ASSIGN_OR_RETURN(base::AtomicFile out,
                       base::AtomicFile::Create(file.path, base::Existing::kReplace));
  if (file.shape_member.empty()) {
    MSP_RETURN_IF_ERROR(io::WriteParts(out, file.head, file.data, {}));
    return out.Commit();
  }
  io::ZipWriter zip(out);
  std::string bits = file.head;
  bits.append(reinterpret_cast<const char*>(file.data.data()), file.data.size());
  MSP_RETURN_IF_ERROR(zip.AddStored("bits.npy", bits));
  MSP_RETURN_IF_ERROR(zip.AddStored("shape.npy", file.shape_member));
  MSP_RETURN_IF_ERROR(zip.Finish());
  return out.Commit();
}

// Memory that runs out is an error like a full disk.
Status TryWrite(const NewFile& file) {
  try {
    return Write(file);
  } catch (const std::bad_alloc&) {
    return IoError("no memory to write " + file.path.string());
  }
}

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

// Errors are kept until the next question. Where no thread can be had, files are written at once.
struct Probe::Files {
  void Add(NewFile file) {
    if (queue.Add(file, file.bytes(), {}) != base::WorkQueue<NewFile>::Added::kYes) {
      errors.Note(TryWrite(file));
    }
  }

  base::FirstError errors;
  base::WorkQueue<NewFile> queue{{.most = kMostWaitingBytes},
                                 [this](const NewFile& file) { errors.Note(TryWrite(file)); }};
};

Probe::Probe(Settings settings)
    : settings_(std::move(settings)), files_(std::make_unique<Files>()) {}

Probe::~Probe() = default;

Status Probe::Flush() {
  files_->queue.WaitUntilIdle();
  return files_->errors.Take();
}

void Probe::AfterFork() {
  static_cast<void>(files_.release());
  files_ = std::make_unique<Files>();
}

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
  files_->Add(std::move(file));
  return {};
}

Status Probe::EndStep() {
  if (!table_.empty()) {
    files_->Add({std::exchange(table_, {}), std::exchange(rows_, {}), {}});
  }
  return files_->errors.Take();
}

}  // namespace msprobe::grad_probe
