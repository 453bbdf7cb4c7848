// Shapes are read here, the model by run_onnx.py, which is part of this program and gets what the
// flags say as JSON. A path is an argument there, never code.
#include "src/analysis/offline_model/offline_model.h"

#include <chrono>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/strings.h"
#include "src/json/document.h"

namespace msprobe::resources {
extern const std::string_view kRunOnnx;
}  // namespace msprobe::resources

namespace msprobe::analysis::offline_model {
namespace {

using json::Json;

constexpr size_t kMostShapes = 1024;
constexpr int64_t kLargestAxis = int64_t{1} << 31U;

// "3" -> 3; "2~6~2" -> 2, 4, 6; "2~4" -> 2, 3, 4; "224-230" -> 224, 230.
Result<std::vector<int64_t>> AxisOf(std::string_view text, bool may_range) {
  const auto bad = [text] {
    return UsageError(fmt::format("\"{}\" is not the size of an axis", base::Printable(text)));
  };
  const char separator = text.find('~') != std::string_view::npos ? '~' : '-';
  std::vector<int64_t> numbers;
  for (const std::string_view part : base::Split(text, separator)) {
    const std::optional<int64_t> number = base::ParseInt(base::Trim(part));
    if (!number || *number < 1 || *number > kLargestAxis) {
      return bad();
    }
    numbers.push_back(*number);
  }
  if (numbers.size() > 1 && !may_range) {
    return bad();
  }
  if (numbers.size() < 2 || separator == '-') {
    return numbers;
  }
  if (numbers.size() > 3 || numbers[0] > numbers[1]) {
    return bad();
  }
  std::vector<int64_t> sizes;
  for (int64_t size = numbers[0]; size <= numbers[1] && sizes.size() <= kMostShapes;
       size += numbers.size() == 3 ? numbers[2] : 1) {
    sizes.push_back(size);
  }
  return sizes;
}

// All combinations of the sizes in "name:size,size;name:size".
Result<std::vector<Json>> ShapesOf(std::string_view text, bool may_range) {
  std::vector<Json> shapes = {Json::object()};
  for (const std::string_view input : base::Split(text, ';')) {
    if (base::Trim(input).empty()) {
      continue;
    }
    const size_t colon = input.rfind(':');
    if (colon == std::string_view::npos || colon == 0) {
      return UsageError(fmt::format("\"{}\" is not the shape of an input", base::Printable(input)))
          .WithHint("name:1,3,224,224;name:1,10");
    }
    const std::string name(base::Trim(input.substr(0, colon)));
    for (Json& shape : shapes) {
      shape[name] = Json::array();
    }
    for (const std::string_view axis : base::Split(input.substr(colon + 1), ',')) {
      MSP_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, AxisOf(base::Trim(axis), may_range));
      if (shapes.size() * sizes.size() > kMostShapes) {
        return UsageError(fmt::format("more than {} shapes", kMostShapes));
      }
      std::vector<Json> longer;
      for (const Json& shape : shapes) {
        for (const int64_t size : sizes) {
          longer.push_back(shape);
          longer.back()[name].push_back(size);
        }
      }
      shapes = std::move(longer);
    }
  }
  return shapes;
}

Result<std::string> RunningOf(const Options& options, const base::RunStamp& stamp) {
  std::error_code ignored;
  Json request;
  request["model"] = std::filesystem::absolute(options.model, ignored).string();
  request["output"] = std::filesystem::absolute(options.output, ignored).string();
  request["stamp"] = stamp.text();
  request["input_data"] = Json::array();
  for (const std::filesystem::path& file : options.input_data) {
    if (!base::IsRegularFile(file)) {
      return NotFoundError(fmt::format("{} is not a file", file.string()))
          .WithHint("--input_data takes .npy or .bin files, with commas between them");
    }
    request["input_data"].push_back(std::filesystem::absolute(file, ignored).string());
  }
  MSP_ASSIGN_OR_RETURN(const std::vector<Json> shape, ShapesOf(options.input_shape, false));
  request["input_shape"] = shape.front();
  request["shapes"] = Json::array();
  if (!options.shape_range.empty()) {
    MSP_ASSIGN_OR_RETURN(const std::vector<Json> shapes, ShapesOf(options.shape_range, true));
    request["shapes"] = shapes;
  }
  request["fusion"] = options.fusion;
  return json::DocumentText(request, -1, json::Writer::NonFinite::kNull);
}

}  // namespace

Result<Dumped> Dump(const Options& options) {
  const std::string kind = base::AsciiLower(options.model.extension().string());
  if (kind == ".om") {
    return UnsupportedError(
               fmt::format("{}: an OM model runs on an Ascend device only", options.model.string()))
        .WithHint(
            "dump it there with acl.json or the debugger of CANN, then compare -m offline_data");
  }
  if (kind != ".onnx" || !base::IsRegularFile(options.model)) {
    return NotFoundError(fmt::format("{} is not an .onnx file", options.model.string()));
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options.output));
  MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                       base::RunStamp::Take(options.output, base::TimestampNow()));
  MSP_ASSIGN_OR_RETURN(std::string request, RunningOf(options, stamp));
  base::ChildOptions child;
  child.program = {options.python.string(), "-c", std::string(resources::kRunOnnx),
                   std::move(request)};
  child.variables = {{"PYTHONDONTWRITEBYTECODE", "1"}};
  child.patience = std::chrono::seconds(options.seconds);
  MSP_ASSIGN_OR_RETURN(const base::ChildEnd end, base::RunChild(child));
  if (end.timed_out) {
    return IoError(fmt::format("{} was stopped after {} seconds", options.model.string(),
                               options.seconds))
        .WithHint("--seconds gives it longer");
  }
  const std::string_view said = base::Trim(end.output);
  const std::string_view last = said.substr(said.rfind('\n') + 1);
  const Result<Json> answer = json::ParseDocument(last);
  if (!answer.ok() || !answer->is_object()) {
    return IoError(fmt::format("{} ended with {}: \"{}\"", options.python.string(),
                               end.signal != 0 ? fmt::format("signal {}", end.signal)
                                               : fmt::format("exit status {}", end.exit_code),
                               base::Printable(last)));
  }
  if (const Json* const problem = json::Find(*answer, "error")) {
    return BadFormatError(fmt::format("{}: \"{}\"", options.model.string(),
                                      base::Printable(json::TextOf(*problem))))
        .WithHint("--python names another Python; install_deps says what it needs");
  }
  Dumped dumped;
  for (const Json& folder : json::ItemsOf(json::Member(*answer, "folders"))) {
    dumped.folders.emplace_back(json::TextOf(folder));
  }
  dumped.tensors = static_cast<uint64_t>(json::IntOf(json::Member(*answer, "tensors")));
  return dumped;
}

}  // namespace msprobe::analysis::offline_model
