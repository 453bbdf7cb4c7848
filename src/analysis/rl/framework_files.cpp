// Rollouts as training frameworks store them: JSON (one object per line, or one document), PyTorch
// files with dicts of tensors or lists of dicts, .npz.
//
// 1. The first bytes of a file tell its format. Numbers of a file become fields: rectangular ones
//    have a shape, lists of uneven lengths are lists of fields.
// 2. Keys get our names by one table. An object is one sample, or a batch where its values per
//    token have an axis for sequences; a batch is split into samples.
// 3. The samples of a step become one array per key, [samples, longest]: log-probabilities are
//    padded with NaN, integers with -1, the mask with 0. Without a mask the lengths of the
//    log-probabilities are one.
//
// Steps come from the objects ("step"), else from the names of files, else from their order. Keys
// become names of folders: others than plain words are left out.
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/rl/token_tables.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/strings.h"
#include "src/io/pickle_reader.h"
#include "src/io/zip.h"
#include "src/json/document.h"
#include "src/kernels/element_pairs.h"

namespace msprobe::analysis::rl {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostJsonBytes = uint64_t{4} << 30U;
constexpr uint64_t kMostNumbers = uint64_t{1} << 28U;  // of one file, with what pads them
constexpr size_t kMostSamples = 10'000'000;
constexpr size_t kMostKeys = 200;
constexpr size_t kLongestKey = 64;
constexpr int kDeepestObject = 4;
constexpr int kDeepestList = 6;
constexpr int64_t kLargestStep = 1'000'000'000'000;

// What a key is for us.
enum class Kind : uint8_t { kLogProbs, kIds, kMask, kOther };

struct KeyName {
  std::string_view ours;
  Kind kind;
  std::string_view theirs;  // separated by blanks; earlier ones are preferred
};

// Names that verl, slime, OpenRLHF, NeMo RL, TRL and SkyRL give.
constexpr std::array<KeyName, 18> kKeyNames = {{
    {"log_probs", Kind::kLogProbs, "log_probs log_prob logprobs logps per_token_logps"},
    {"rollout_log_probs", Kind::kLogProbs,
     "rollout_log_probs rollout_log_prob rollout_logprobs generation_logprobs "
     "sampling_per_token_logps response_logprobs"},
    {"old_log_probs", Kind::kLogProbs,
     "old_log_probs old_log_prob old_logprobs old_per_token_logps prev_logprobs action_log_probs "
     "train_log_probs"},
    {"ref_log_probs", Kind::kLogProbs,
     "ref_log_probs ref_log_prob ref_per_token_logps base_action_log_probs "
     "reference_policy_logprobs"},
    {kIdsKey, Kind::kIds,
     "responses response response_ids output_ids completion_ids response_token_ids"},
    {"input_ids", Kind::kOther, "input_ids tokens token_ids sequences"},
    {"prompts", Kind::kOther, "prompts prompt_ids prompt_token_ids"},
    {kMaskKey, Kind::kMask,
     "response_mask response_masks loss_mask loss_masks action_mask completion_mask token_mask"},
    {"routed_experts", Kind::kOther, "routed_experts rollout_routed_experts"},
    {"position_ids", Kind::kOther, "position_ids"},
    {"prompt_lengths", Kind::kOther, "prompt_lengths prompt_length prompt_len"},
    {"response_lengths", Kind::kOther, "response_lengths response_length response_len"},
    {"sequence_ids", Kind::kOther, "sequence_ids index idx sample_index sample_indices"},
    {"weight_version", Kind::kOther, "weight_version weight_versions policy_version"},
    {"rewards", Kind::kOther, "rewards reward"},
    {"advantages", Kind::kOther, "advantages"},
    {"step", Kind::kOther, "step global_step global_steps train_step rollout_id"},
    // Members of an object that hold its samples.
    {"samples", Kind::kOther, "samples data rollouts trajectories"},
}};

const KeyName* FindKeyName(std::string_view key) {
  for (const KeyName& name : kKeyNames) {
    std::string_view rest = name.theirs;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(' '), rest.size());
      if (rest.substr(0, end) == key) {
        return &name;
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return nullptr;
}

Kind KindOf(std::string_view our_key) {
  const KeyName* name = FindKeyName(our_key);
  return name == nullptr ? Kind::kOther : name->kind;
}

bool IsPlainWord(std::string_view key) {
  return !key.empty() && key.size() <= kLongestKey &&
         std::all_of(key.begin(), key.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
         });
}

// Numbers with a shape, or lists of other shapes.
struct Field {
  Shape shape;
  std::vector<double> values;
  bool is_integer = true;
  std::vector<Field> parts;  // not empty: uneven, and all else is

  bool has_rows() const { return !parts.empty() || !shape.empty(); }
  size_t rows() const {
    return parts.empty() ? static_cast<size_t>(shape.empty() ? 1 : shape[0]) : parts.size();
  }
  size_t depth() const { return parts.empty() ? shape.size() : parts.front().depth() + 1; }
};

Field RowOf(const Field& field, size_t row) {
  if (!field.parts.empty()) {
    return field.parts[row];
  }
  Field out;
  out.is_integer = field.is_integer;
  out.shape.assign(field.shape.begin() + 1, field.shape.end());
  const auto size = static_cast<size_t>(ElementCount(out.shape));
  const auto begin = field.values.begin() + static_cast<ptrdiff_t>(row * size);
  out.values.assign(begin, begin + static_cast<ptrdiff_t>(size));
  return out;
}

void TakeTail(Field& field, size_t count) {
  if (field.parts.empty() && field.shape.size() == 1 && field.values.size() > count) {
    field.values.erase(field.values.begin(), field.values.end() - static_cast<ptrdiff_t>(count));
    field.shape[0] = static_cast<int64_t>(count);
  }
}

// One field out of several: stacked where they have one shape.
Field Stack(std::vector<Field> parts) {
  Field out;
  const bool even = std::all_of(parts.begin(), parts.end(), [&](const Field& part) {
    return part.parts.empty() && part.shape == parts.front().shape;
  });
  if (!even) {
    out.parts = std::move(parts);
    return out;
  }
  out.shape = parts.empty() ? Shape() : parts.front().shape;
  out.shape.insert(out.shape.begin(), static_cast<int64_t>(parts.size()));
  for (const Field& part : parts) {
    out.is_integer = out.is_integer && part.is_integer;
    out.values.insert(out.values.end(), part.values.begin(), part.values.end());
  }
  return out;
}

using Object = std::map<std::string, Field>;  // by our names

struct Budget {
  uint64_t numbers = kMostNumbers;

  Status Take(uint64_t count) {
    if (count > numbers) {
      return UnsupportedError(fmt::format("it holds more than {} numbers", kMostNumbers))
          .WithHint("store a file per step");
    }
    numbers -= count;
    return {};
  }
};

// Values of a file; both kinds have the same functions.

struct JsonNode {
  const json::Json* value;

  std::optional<std::pair<double, bool>> Number() const {
    const json::Json& v = *value;
    if (v.is_null()) {
      return std::pair(std::numeric_limits<double>::quiet_NaN(), false);
    }
    if (v.is_boolean()) {
      return std::pair(v.get<bool>() ? 1.0 : 0.0, true);
    }
    if (v.is_number()) {
      return std::pair(json::NumberOf(v), !v.is_number_float());
    }
    if (v.is_string()) {  // "3", a version of the weights
      const std::optional<int64_t> number = base::ParseInt(json::TextOf(v));
      return number ? std::optional(std::pair(static_cast<double>(*number), true)) : std::nullopt;
    }
    return std::nullopt;
  }
  const TensorView* Tensor() const { return nullptr; }
  bool IsList() const { return value->is_array(); }
  bool IsObject() const { return value->is_object(); }
  std::vector<JsonNode> Items() const {
    std::vector<JsonNode> items;
    for (const json::Json& item : json::ItemsOf(*value)) {
      items.push_back({&item});
    }
    return items;
  }
  std::vector<std::pair<std::string, JsonNode>> Members() const {
    std::vector<std::pair<std::string, JsonNode>> members;
    for (const auto& [key, item] : value->items()) {
      members.emplace_back(key, JsonNode{&item});
    }
    return members;
  }
};

// A pickle says how the values lie, the tensors of the file are found by the way to them.
struct PickleFile {
  const io::Pickle* pickle;
  std::map<std::string, const TensorView*> tensors;  // by path, each part behind a zero byte
};

struct PickleNode {
  const PickleFile* file;
  io::PickleId id;
  const PickleNode* parent = nullptr;  // longer-lived
  std::string_view key = {};
  size_t index = 0;

  std::optional<std::pair<double, bool>> Number() const {
    const io::Pickle& pickle = *file->pickle;
    switch (pickle.kind(id)) {
      case io::PickleKind::kNone:
        return std::pair(std::numeric_limits<double>::quiet_NaN(), false);
      case io::PickleKind::kBool:
      case io::PickleKind::kInt:
        return std::pair(static_cast<double>(pickle.integer(id)), true);
      case io::PickleKind::kFloat:
        return std::pair(pickle.number(id), false);
      case io::PickleKind::kText:
        if (const std::optional<int64_t> number = base::ParseInt(pickle.text(id))) {
          return std::pair(static_cast<double>(*number), true);
        }
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }
  std::string Path() const {
    std::string path = parent == nullptr ? std::string() : parent->Path();
    if (parent != nullptr) {
      path.push_back('\0');
      path += key.empty() ? std::to_string(index) : std::string(key);
    }
    return path;
  }
  const TensorView* Tensor() const {
    if (file->pickle->kind(id) != io::PickleKind::kObject) {
      return nullptr;
    }
    const auto found = file->tensors.find(Path());
    return found == file->tensors.end() ? nullptr : found->second;
  }
  bool IsList() const {
    const io::PickleKind kind = file->pickle->kind(id);
    return kind == io::PickleKind::kList || kind == io::PickleKind::kTuple;
  }
  // A dict, or the attributes of an object.
  io::PickleId Dict() const {
    const io::Pickle& pickle = *file->pickle;
    return pickle.kind(id) == io::PickleKind::kDict     ? id
           : pickle.kind(id) == io::PickleKind::kObject ? pickle.attributes(id)
                                                        : io::kNoPickleValue;
  }
  bool IsObject() const {
    const io::PickleId dict = Dict();
    return dict != io::kNoPickleValue && file->pickle->kind(dict) == io::PickleKind::kDict;
  }
  std::vector<PickleNode> Items() const {
    std::vector<PickleNode> items;
    for (const io::PickleId item : file->pickle->sequence(id)) {
      items.push_back({file, item, this, {}, items.size()});
    }
    return items;
  }
  std::vector<std::pair<std::string, PickleNode>> Members() const {
    std::vector<std::pair<std::string, PickleNode>> members;
    for (const auto& [key_id, item] : file->pickle->UniqueItems(Dict())) {
      if (file->pickle->kind(key_id) == io::PickleKind::kText) {
        const std::string_view text = file->pickle->text(key_id);
        members.emplace_back(std::string(text), PickleNode{file, item, this, text});
      }
    }
    return members;
  }
};

Result<Field> FieldOfTensor(const TensorView& view, Budget& budget) {
  Field field;
  field.shape = view.shape;
  if (GetDTypeInfo(view.dtype).kind == DTypeKind::kComplex ||
      view.shape.size() > static_cast<size_t>(kDeepestList)) {
    return field;
  }
  const auto count = static_cast<size_t>(view.element_count());
  MSP_RETURN_IF_ERROR(budget.Take(count));
  field.is_integer = GetDTypeInfo(view.dtype).kind != DTypeKind::kFloat;
  field.values.reserve(count);
  kernels::NumberReader<double> reader(view);
  for (size_t at = 0; at < count;) {
    const std::span<const double> some = reader.Read(at, std::min(size_t{1} << 16U, count - at));
    field.values.insert(field.values.end(), some.begin(), some.end());
    at += some.size();
  }
  return field;
}

// Nothing where it holds something else than numbers.
template <typename Node>
Result<std::optional<Field>> ReadField(const Node& node, int depth, Budget& budget) {
  using MaybeField = std::optional<Field>;
  if (const TensorView* view = node.Tensor()) {
    MSP_ASSIGN_OR_RETURN(Field field, FieldOfTensor(*view, budget));
    return MaybeField(std::move(field));
  }
  if (const auto number = node.Number()) {
    MSP_RETURN_IF_ERROR(budget.Take(1));
    return MaybeField(Field{{}, {number->first}, number->second, {}});
  }
  if (!node.IsList() || depth > kDeepestList) {
    return MaybeField();
  }
  const std::vector<Node> items = node.Items();
  Field flat;
  for (const Node& item : items) {
    const auto number = item.IsList() ? std::nullopt : item.Number();
    if (!number) {
      break;
    }
    flat.values.push_back(number->first);
    flat.is_integer = flat.is_integer && number->second;
  }
  if (flat.values.size() == items.size()) {
    flat.shape = {static_cast<int64_t>(items.size())};
    MSP_RETURN_IF_ERROR(budget.Take(items.size()));
    return MaybeField(std::move(flat));
  }
  std::vector<Field> parts;
  for (const Node& item : items) {
    MSP_ASSIGN_OR_RETURN(std::optional<Field> part, ReadField(item, depth + 1, budget));
    if (!part) {
      return MaybeField();
    }
    parts.push_back(std::move(*part));
  }
  return MaybeField(Stack(std::move(parts)));
}

// The samples of one file, by step.
class Samples {
 public:
  explicit Samples(int64_t step) : step_(step) {}

  // A value with samples, a batch or one sample; `around` are numbers of what holds it.
  template <typename Node>
  Status Add(const Node& node, const Object& around, int depth, Budget& budget) {
    if (depth > kDeepestObject) {
      return BadFormatError(fmt::format("objects lie more than {} deep", kDeepestObject));
    }
    if (node.IsList()) {
      for (const Node& item : node.Items()) {
        if (!item.IsObject()) {
          return BadFormatError("a list holds something else than objects");
        }
        MSP_RETURN_IF_ERROR(Add(item, around, depth + 1, budget));
      }
      return {};
    }
    if (!node.IsObject()) {
      return BadFormatError("it is neither an object nor a list of objects");
    }
    Object object = around;
    std::optional<Node> samples;
    const auto members = node.Members();
    MSP_RETURN_IF_ERROR(Collect(members, object, samples, depth, budget));
    if (samples) {
      return Add(*samples, object, depth + 1, budget);
    }
    return AddObject(std::move(object));
  }

  Status AddObject(Object object) {
    // An axis for the sequences?
    std::optional<size_t> batch;
    for (const auto& [key, field] : object) {
      if (KindOf(key) != Kind::kOther && field.depth() >= 2 && !batch) {
        batch = field.rows();
      }
    }
    if (!batch) {
      return AddSample(std::move(object), true);
    }
    bool even = true;
    for (const auto& [key, field] : object) {
      even = even && (KindOf(key) != Kind::kLogProbs || field.parts.empty());
    }
    for (size_t row = 0; row < *batch; ++row) {
      Object sample;
      for (const auto& [key, field] : object) {
        sample[key] =
            field.has_rows() && field.rows() == *batch && key != "step" ? RowOf(field, row) : field;
      }
      MSP_RETURN_IF_ERROR(AddSample(std::move(sample), !even));
    }
    return {};
  }

  std::map<int64_t, std::vector<Object>> steps;

 private:
  template <typename Node>
  Status Collect(const std::vector<std::pair<std::string, Node>>& members, Object& object,
                 std::optional<Node>& samples, int depth, Budget& budget) {
    for (const auto& [key, value] : members) {
      const std::string ours(OurNameOfKey(key));
      if (ours == "samples" && (value.IsList() || value.IsObject()) && !value.Tensor()) {
        const std::vector<Node> items = value.Items();
        if (value.IsObject() || (!items.empty() && items.front().IsObject())) {
          samples = value;
          continue;
        }
      }
      if (value.Tensor() == nullptr && value.IsObject()) {  // "batch", "train_metadata"
        if (depth + 1 < kDeepestObject) {
          const auto inner = value.Members();
          MSP_RETURN_IF_ERROR(Collect(inner, object, samples, depth + 1, budget));
        }
        continue;
      }
      const std::string& name = object.count(ours) == 0 ? ours : key;
      if (!IsPlainWord(name) || object.count(name) > 0) {
        continue;
      }
      MSP_ASSIGN_OR_RETURN(std::optional<Field> field, ReadField(value, 0, budget));
      if (field && (!field->parts.empty() || !field->values.empty())) {
        if (object.size() >= kMostKeys) {
          return BadFormatError(fmt::format("an object has more than {} keys", kMostKeys));
        }
        object.emplace(name, std::move(*field));
      }
    }
    return {};
  }

  // `of_lists`: it was not cut out of a padded array, so that its end is the end of its lists.
  Status AddSample(Object sample, bool of_lists) {
    int64_t step = step_;
    if (const auto found = sample.find("step"); found != sample.end()) {
      const Field& field = found->second;
      const double value = field.values.empty() ? -1 : field.values.front();
      if (!(value >= 0 && value <= static_cast<double>(kLargestStep))) {
        return BadFormatError("its step is not a number from 0 on");
      }
      step = static_cast<int64_t>(value);
      sample.erase(found);
    }
    std::optional<size_t> length;
    for (const auto& [key, field] : sample) {
      if (KindOf(key) == Kind::kLogProbs && field.depth() == 1 && !length) {
        length = field.rows();
      }
    }
    if (length && of_lists) {
      const auto ids = sample.find("input_ids");
      if (sample.count(std::string(kIdsKey)) == 0 && ids != sample.end() &&
          ids->second.depth() == 1 && ids->second.rows() >= *length) {
        Field tail = ids->second;
        TakeTail(tail, *length);
        sample.emplace(kIdsKey, std::move(tail));
      }
      if (const auto mask = sample.find(std::string(kMaskKey)); mask != sample.end()) {
        TakeTail(mask->second, *length);
      }
    }
    if (const auto version = sample.find("weight_version");
        version != sample.end() && version->second.depth() == 1 &&
        (!length || version->second.rows() != *length)) {
      TakeTail(version->second, 1);  // of a response that several versions wrote: the last one
      version->second.shape.clear();
    }
    if (++count_ > kMostSamples) {
      return UnsupportedError(fmt::format("it holds more than {} samples", kMostSamples));
    }
    steps[step].push_back(std::move(sample));
    return {};
  }

  const int64_t step_;
  size_t count_ = 0;
};

Status AddLines(std::string_view text, Samples& samples) {
  Budget budget;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = base::Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty()) {
      continue;
    }
    Result<json::Json> document = json::ParseDocument(line);
    const Status status =
        document.ok() ? samples.Add(JsonNode{&*document}, {}, 0, budget) : document.status();
    if (!status.ok()) {
      return BadFormatError(fmt::format("line {}: {}", number, status.message()));
    }
  }
  return {};
}

Status AddTorchFile(const io::ZipArchive& archive, const io::ZipEntry& entry,
                    const TensorFile& file, Samples& samples) {
  constexpr uint64_t kMostPickleBytes = uint64_t{1} << 30U;
  MSP_ASSIGN_OR_RETURN(const io::ZipBytes inflated, archive.Read(entry, kMostPickleBytes, false));
  MSP_ASSIGN_OR_RETURN(
      const io::Pickle pickle,
      io::PickleReader::Read(inflated.bytes, io::PickleLimits::ForStored(entry.compressed_bytes)));
  PickleFile source{&pickle, {}};
  for (const NamedTensor& tensor : file.tensors()) {
    if (tensor.status.ok() && tensor.view.data != nullptr) {
      std::string path;
      for (const std::string& part : tensor.path) {
        path.push_back('\0');
        path += part;
      }
      source.tensors.emplace(std::move(path), &tensor.view);
    }
  }
  Budget budget;
  return samples.Add(PickleNode{&source, pickle.root()}, {}, 0, budget);
}

// Tensors with names: .npz, .safetensors, PyTorch's files from before 1.6.
Status AddTensors(const TensorFile& file, Samples& samples, std::vector<std::string>& warnings) {
  Object object;
  Budget budget;
  for (const NamedTensor& tensor : file.tensors()) {
    const std::string name = tensor.path.empty() ? std::string() : tensor.path.back();
    std::string ours(OurNameOfKey(name));
    ours = object.count(ours) == 0 ? ours : name;
    if (!tensor.status.ok() || tensor.view.data == nullptr || !IsPlainWord(ours) ||
        object.count(ours) > 0 || object.size() >= kMostKeys) {
      warnings.push_back(fmt::format("{} is left out{}{}", base::Printable(tensor.name()),
                                     tensor.status.ok() ? "" : ": ", tensor.status.message()));
      continue;
    }
    MSP_ASSIGN_OR_RETURN(Field field, FieldOfTensor(tensor.view, budget));
    if (!field.values.empty()) {
      object.emplace(std::move(ours), std::move(field));
    }
  }
  if (object.empty()) {
    return BadFormatError("it holds no array with a name")
        .WithHint("numpy.savez(FILE, log_probs=..., responses=..., response_mask=...)");
  }
  return samples.AddObject(std::move(object));
}

Status ReadSamples(const fs::path& path, Samples& samples, std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  const std::string_view text = file.text();
  const std::string_view head = base::Trim(text.substr(0, 4096));
  if (text.starts_with("PAR1")) {
    return UnsupportedError("Parquet is not read")
        .WithHint(
            "python3 -c \"import pandas; pandas.read_parquet('FILE').to_json('FILE.jsonl', "
            "orient='records', lines=True, double_precision=15)\"");
  }
  if (text.starts_with("\x1f\x8b")) {
    return UnsupportedError("it is compressed").WithHint("gunzip FILE");
  }
  if (head.starts_with('{') || head.starts_with('[')) {
    if (text.size() > kMostJsonBytes) {
      return UnsupportedError("more than 4 GiB of JSON").WithHint("store a file per step");
    }
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = base::Trim(text.substr(0, end));
    const bool one_line = base::Trim(text.substr(end)).empty();
    if (!one_line && line.size() > 1 && (line.back() == '}' || line.back() == ']')) {
      return AddLines(text, samples);
    }
    Budget budget;  // one document, whose lines may be broken
    MSP_ASSIGN_OR_RETURN(const json::Json document, json::ParseDocument(text));
    return samples.Add(JsonNode{&document}, {}, 0, budget);
  }
  if (text.empty()) {
    return BadFormatError("it is empty");
  }
  MSP_ASSIGN_OR_RETURN(const TensorFile tensors, TensorFile::Open(path));
  if (tensors.format() == TensorFileFormat::kPtZip) {
    MSP_ASSIGN_OR_RETURN(const io::ZipArchive archive, io::ZipArchive::Open(file.bytes()));
    for (const io::ZipEntry& entry : archive.entries()) {
      if (entry.name == "data.pkl" || entry.name.ends_with("/data.pkl")) {
        return AddTorchFile(archive, entry, tensors, samples);
      }
    }
  }
  return AddTensors(tensors, samples, warnings);
}

// Writes the arrays of one step.
class StepWriter {
 public:
  StepWriter(fs::path data, std::string place, std::vector<std::string>& warnings)
      : data_(std::move(data)), place_(std::move(place)), warnings_(warnings) {}

  Status Write(std::vector<Object>& samples) {
    std::set<std::string> keys;
    std::string logs;
    for (const Object& sample : samples) {
      for (const auto& [key, field] : sample) {
        keys.insert(key);
        if (KindOf(key) == Kind::kLogProbs && field.depth() == 1 && logs.empty()) {
          logs = key;
        }
      }
    }
    if (!logs.empty() && keys.insert(std::string(kMaskKey)).second) {
      for (Object& sample : samples) {
        const auto found = sample.find(logs);
        const size_t length = found == sample.end() ? 0 : found->second.rows();
        sample[std::string(kMaskKey)] =
            Field{{static_cast<int64_t>(length)}, std::vector<double>(length, 1), true, {}};
      }
    }
    for (const std::string& key : keys) {
      MSP_RETURN_IF_ERROR(WriteKey(key, samples));
    }
    return {};
  }

 private:
  Status WriteKey(const std::string& key, const std::vector<Object>& samples) {
    Shape shape;
    bool is_integer = true;
    bool known = false;
    for (const Object& sample : samples) {
      const auto found = sample.find(key);
      if (found == sample.end()) {
        continue;
      }
      const Field& field = found->second;
      is_integer = is_integer && field.is_integer;
      shape = known ? shape : field.shape;
      known = true;
      const bool fits =
          field.parts.empty() && field.shape.size() == shape.size() &&
          static_cast<int64_t>(field.values.size()) == ElementCount(field.shape) &&
          (shape.empty() || std::equal(shape.begin() + 1, shape.end(), field.shape.begin() + 1));
      if (!fits) {
        warnings_.push_back(fmt::format("{}: samples have other shapes: left out", key));
        return {};
      }
      if (!shape.empty()) {
        shape[0] = std::max(shape[0], field.shape[0]);
      }
    }
    const auto size = static_cast<size_t>(ElementCount(shape));
    if (size > kMostNumbers / samples.size()) {
      return UnsupportedError(
          fmt::format("{}: padded to the longest it has more than {} numbers", key, kMostNumbers));
    }
    const double pad = KindOf(key) == Kind::kMask ? 0
                       : is_integer               ? -1
                                                  : std::numeric_limits<double>::quiet_NaN();
    std::vector<double> values(size * samples.size(), pad);
    for (size_t i = 0; i < samples.size(); ++i) {
      if (const auto found = samples[i].find(key); found != samples[i].end()) {
        std::copy(found->second.values.begin(), found->second.values.end(),
                  values.begin() + static_cast<ptrdiff_t>(i * size));
      }
    }
    shape.insert(shape.begin(), static_cast<int64_t>(samples.size()));
    const fs::path folder = data_ / key / place_;
    MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
    TensorView view;
    view.dtype = DType::kFloat64;
    std::vector<int64_t> integers;
    view.data = reinterpret_cast<const std::byte*>(values.data());
    if (is_integer) {
      static constexpr double kMost = 9e18;
      std::transform(values.begin(), values.end(), std::back_inserter(integers),
                     [](double v) { return static_cast<int64_t>(std::clamp(v, -kMost, kMost)); });
      view.dtype = DType::kInt64;
      view.data = reinterpret_cast<const std::byte*>(integers.data());
    }
    view.strides = ContiguousStrides(shape);
    view.shape = std::move(shape);
    view.extent_bytes = values.size() * sizeof(double);
    return WriteNpyFile(folder / (key + ".npy"), view);
  }

  const fs::path data_;
  const std::string place_;
  std::vector<std::string>& warnings_;
};

// Step and rank in the name of a file: "12.jsonl", "step12_rank3.pt", "12_3.pt".
struct NameNumbers {
  std::optional<int64_t> step;
  int64_t rank = 0;
};

NameNumbers NumbersIn(const std::string& name) {
  const std::string stem = name.substr(0, name.rfind('.'));
  NameNumbers numbers;
  bool has_rank = false;
  for (size_t at = 0; at < stem.size();) {
    const size_t begin = stem.find_first_of("0123456789", at);
    if (begin == std::string::npos) {
      break;
    }
    const size_t end = std::min(stem.find_first_not_of("0123456789", begin), stem.size());
    std::string before = base::AsciiLower(std::string_view(stem).substr(at, begin - at));
    while (!before.empty() && (before.back() == '_' || before.back() == '-')) {
      before.pop_back();
    }
    const std::optional<int64_t> value = base::ParseInt(stem.substr(begin, end - begin));
    if (value && *value <= kLargestStep) {
      const bool is_second = at > 0 && begin == at + 1 && end == stem.size() && numbers.step;
      if (before.ends_with("rank") || (is_second && !has_rank)) {
        numbers.rank = *value;
        has_rank = true;
      } else {
        numbers.step = *value;
      }
    }
    at = end;
  }
  return numbers;
}

Status ConvertRollouts(const fs::path& path, const fs::path& target,
                       std::vector<std::string>& warnings) {
  std::vector<std::string> names;
  const bool is_folder = base::IsFolder(path);
  if (is_folder) {
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> all, base::ListFolder(path));
    std::copy_if(all.begin(), all.end(), std::back_inserter(names), [&](const std::string& name) {
      return !name.starts_with('.') && base::IsRegularFile(path / name);
    });
  } else {
    names.push_back(path.filename().string());
  }
  if (names.empty()) {
    return NotFoundError(fmt::format("{} holds no folder \"data\" and no files", path.string()))
        .WithHint("name the folder that was given to SingleSave, or files of rollouts");
  }
  // Numbers in names are steps where every file has one and no two have the same.
  std::set<std::pair<int64_t, int64_t>> places;
  bool numbered = is_folder;
  for (const std::string& name : names) {
    const NameNumbers numbers = NumbersIn(name);
    numbered = numbered && numbers.step && places.emplace(*numbers.step, numbers.rank).second;
  }
  std::set<std::pair<int64_t, int64_t>> written;
  for (size_t i = 0; i < names.size(); ++i) {
    const fs::path file = is_folder ? path / names[i] : path;
    const NameNumbers numbers = NumbersIn(names[i]);
    Samples samples(numbered ? *numbers.step : static_cast<int64_t>(i));
    const int64_t rank = numbered ? numbers.rank : 0;
    std::vector<std::string> notes;
    Status status = ReadSamples(file, samples, notes);
    for (auto step = samples.steps.begin(); status.ok() && step != samples.steps.end(); ++step) {
      if (!written.emplace(step->first, rank).second) {
        status = BadFormatError(fmt::format("step {} is in another file, too", step->first))
                     .WithHint("put rank<R> into the names of files of other ranks");
        break;
      }
      status = StepWriter(target / "data", fmt::format("step{}/rank{}", step->first, rank), notes)
                   .Write(step->second);
    }
    if (status.ok() && samples.steps.empty()) {
      status = BadFormatError("it holds no samples");
    }
    if (!status.ok()) {
      Status error = BadFormatError(fmt::format("{}: {}", file.string(), status.message()));
      return status.hint().empty() ? error : std::move(error).WithHint(status.hint());
    }
    for (const std::string& note : notes) {
      warnings.push_back(fmt::format("{}: {}", file.string(), note));
    }
  }
  return {};
}

}  // namespace

bool IsSavedBySingleSave(const fs::path& path) {
  return base::IsFolder(path) && base::IsFolder(path / "data");
}

std::string_view OurNameOfKey(std::string_view key) {
  const KeyName* name = FindKeyName(key);
  return name == nullptr ? key : name->ours;
}

ConvertedRuns::~ConvertedRuns() {
  if (!path_.empty()) {
    std::error_code error;
    fs::remove_all(path_, error);
    base::ForgetOnInterrupt(slot_);
  }
}

Status ConvertedRuns::Convert(fs::path& first, fs::path& second,
                              std::vector<std::string>& warnings) {
  for (fs::path* run : {&first, &second}) {
    if (IsSavedBySingleSave(*run)) {
      continue;
    }
    if (path_.empty()) {
      MSP_RETURN_IF_ERROR(Create());
    }
    const fs::path target = path_ / (run == &first ? "first" : "second");
    MSP_RETURN_IF_ERROR(ConvertRollouts(*run, target, warnings));
    *run = target;
  }
  return {};
}

Status ConvertedRuns::Create() {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  if (error) {
    return IoError(fmt::format("no folder for temporary files: {}", error.message()))
        .WithHint("set TMPDIR");
  }
  base::RemoveAbandoned(folder, base::Leftovers::kOfLaunchers);
  std::string path;
  lock_ = base::Descriptor(base::MakeUnfinished([&] {
    path = (fs::absolute(folder, error) / "msprobe-worker-XXXXXX").string();
    return ::mkdtemp(path.data()) == nullptr
               ? -1
               : ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  }));
  if (!lock_.is_open()) {
    return base::SystemError("create a folder in", folder, errno);
  }
  path_ = std::move(path);
  slot_ = base::RemoveOnInterrupt(path_.string());
  return {};
}

}  // namespace msprobe::analysis::rl
