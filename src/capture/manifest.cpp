#include "src/capture/manifest.h"

#include <algorithm>
#include <string>

#include <unistd.h>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"
#include "msprobe/version.h"

#include "src/capture/step_folder.h"
#include "src/capture/tensor_values.h"
#include "src/dump/layout.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

constexpr int64_t kFarthestElement = int64_t{1} << 56U;

// As Python counts: from the end where negative, never outside.
int64_t Position(int64_t given, int64_t length) {
  return std::clamp<int64_t>(given < 0 ? given + length : given, 0, length);
}

}  // namespace

std::optional<TensorSlice> RowsOf(const std::vector<RequestRows>& batch, std::string_view id) {
  for (const RequestRows& rows : batch) {
    if (rows.id == id) {
      TensorSlice slice;
      slice.size = batch.back().end;
      slice.begin = rows.begin;
      slice.end = rows.end;
      return slice;
    }
  }
  return std::nullopt;
}

void TakeSlices(const std::vector<TensorSlice>& slices, TensorDescription& tensor) {
  if (!tensor.dtype ||
      std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t n) { return n < 0; })) {
    return;
  }
  const Shape whole = tensor.shape;
  if (tensor.strides.empty()) {
    tensor.strides = ContiguousStrides(tensor.shape);
  }
  if (tensor.strides.size() != whole.size()) {
    return;  // reported when its view is made
  }
  const auto* const first = static_cast<const std::byte*>(tensor.data);
  std::vector<int64_t> begins(whole.size(), 0);
  for (const TensorSlice& slice : slices) {
    if (slice.dimension >= static_cast<int64_t>(whole.size())) {
      continue;
    }
    const auto axis = static_cast<size_t>(slice.dimension);
    const int64_t length = whole[axis];
    if (slice.size && *slice.size != length) {
      continue;
    }
    begins[axis] = Position(slice.begin, length);
    const int64_t end = slice.end ? Position(*slice.end, length) : length;
    tensor.shape[axis] = std::max<int64_t>(end - begins[axis], 0);
  }
  if (first == nullptr) {
    return;
  }
  int64_t offset = 0;  // in elements
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    int64_t skipped = 0;
    if (__builtin_mul_overflow(begins[axis], tensor.strides[axis], &skipped) ||
        __builtin_add_overflow(offset, skipped, &offset) || offset > kFarthestElement) {
      tensor.shape = whole;  // such strides are refused when its view is made
      return;
    }
  }
  const bool is_empty =
      std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  tensor.data =
      is_empty ? tensor.data : first + offset * static_cast<int64_t>(DTypeSize(*tensor.dtype));
}

namespace {

void PutRequests(const std::vector<RequestRows>& requests, json::Writer& json) {
  json.Key("requests");
  json.BeginArray();
  for (const RequestRows& rows : requests) {
    json.BeginObject();
    json.Member("id", rows.id);
    json.Member("begin", rows.begin);
    json.Member("end", rows.end);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

Status WriteManifest(const base::Path& folder, const Settings& settings, const Manifest& manifest) {
  // Not as a tree: that library ends the process where memory runs out in the middle of one.
  std::string out;
  json::Writer json(out, 1, json::Writer::NonFinite::kText);
  json.BeginObject();
  json.Member("complete", manifest.complete);
  json.Member("version", MSPROBE_VERSION);
  json.Member("task", TaskName(settings.task));
  json.Member("level", LevelName(settings.level));
  json.Member("framework", FrameworkName(settings.framework));
  json.Member("step", manifest.step);
  json.Key("rank");
  if (manifest.rank) {
    json.Int(*manifest.rank);
  } else {
    json.Null();
  }
  json.Member("process_id", static_cast<int64_t>(::getpid()));
  json.Member("process", ProcessIdentity());
  json.Member("run", RunIdentity());
  json.Member("entries", manifest.entries);
  json.Member("tensors", manifest.tensors);
  json.Member("tensor_files", manifest.files.files);
  json.Member("tensor_bytes", manifest.files.bytes);
  json.Member("written_bytes", manifest.files.written_bytes);
  json.Member("deduplicated_files", manifest.files.deduplicated);
  json.Member("lost_files", manifest.files.lost);
  json.Member("lost_records", manifest.lost_records);
  json.Member("lost_record_bytes", manifest.lost_record_bytes);
  json.Member("dropped_records", manifest.dropped_records);
  json.Member("dropped_files", manifest.dropped_files);
  json.Member("dropped_steps", manifest.dropped_steps);
  json.Member("errors", manifest.errors);
  json.Member("engine_seconds", manifest.engine_seconds);
  if (settings.repeat > 0) {
    json.Member("repeat_seconds", manifest.repeat_seconds);
  }
  json.Member("wall_seconds", manifest.wall_seconds);
  if (settings.task == Task::kNanCheck) {
    json.Member("non_finite_calls", manifest.non_finite_calls);
    if (!manifest.first_non_finite.empty()) {
      json.Member("first_non_finite", manifest.first_non_finite);
    }
  }
  if (settings.searches_differences()) {
    json.Member("bench_path", settings.bench_path);
    json.Member("compared_calls", manifest.compared_calls);
    json.Member("differing_calls", manifest.differing_calls);
    if (!manifest.first_difference.empty()) {
      json.Member("first_difference", manifest.first_difference);
    }
  }
  if (settings.risk_level != RiskLevel::kAll) {
    json.Member("risk_level", RiskLevelName(settings.risk_level));
  }
  if (!settings.slices.empty()) {
    json.Key("slice");
    PutSlices(settings.slices, json);
  }
  if (!settings.request_id.empty()) {
    json.Member("request_id", settings.request_id);
  }
  if (!manifest.requests.empty()) {
    PutRequests(manifest.requests, json);
  }
  if (!manifest.remarks.altered_modules.empty()) {
    json.Key("altered_modules");
    json.BeginObject();
    for (const auto& [name, why] : manifest.remarks.altered_modules) {
      json.Member(name, why);
    }
    json.EndObject();
  }
  if (!manifest.remarks.own_gradients.empty()) {
    json.Key("own_gradients");
    json.BeginArray();
    for (const std::string& name : manifest.remarks.own_gradients) {
      json.Text(name);
    }
    json.EndArray();
  }
  json.EndObject();
  out += '\n';
  return base::WriteFileAtomically(folder / dump::kManifestFileName, out, base::Existing::kReplace);
}

}  // namespace msprobe::capture
