#include "src/analysis/accuracy/check/call_maker.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/analysis/accuracy/check/tensor_record.h"
#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/dump/entry_tree.h"

namespace msprobe::analysis::accuracy {
namespace {

// "Torch.matmul.0.forward" without the direction; empty where the direction is not the last part.
std::string_view WithoutDirection(std::string_view name, std::string_view direction) {
  if (name.size() <= direction.size() + 1 || !name.ends_with(direction) ||
      name[name.size() - direction.size() - 1] != '.') {
    return {};
  }
  return name.substr(0, name.size() - direction.size() - 1);
}

// Names become parts of file names and cells.
bool HasSpecialCharacters(std::string_view name) {
  return name.find_first_of("/\\'\"`$;&|<>*?\n\r\t") != std::string_view::npos;
}

}  // namespace

Result<DumpCalls> ReadDumpCalls(const std::filesystem::path& path) {
  DumpCalls read;
  std::unordered_map<std::string, RecordPlace> backward;
  Status wrong;
  MSP_ASSIGN_OR_RETURN(
      const dump::EntryScanOutcome scanned,
      dump::ScanEntries(path, [&](const dump::ScannedEntry& entry, const dump::EntryScanOutcome&) {
        if (entry.name.find("Module") != std::string_view::npos) {
          return true;
        }
        const bool is_forward = entry.name.find("forward") != std::string_view::npos;
        const std::string_view name =
            WithoutDirection(entry.name, is_forward ? "forward" : "backward");
        if (name.empty() || HasSpecialCharacters(name)) {
          wrong = BadFormatError(fmt::format("{}: \"{}\" is not the name of a call",
                                             base::Printable(path.string()),
                                             base::Printable(entry.name)))
                      .WithHint("give the dump.json of level L1 or mix");
          return false;
        }
        const RecordPlace place = {entry.offset, entry.text.size()};
        if (is_forward) {
          read.calls.push_back({std::string(name), place, std::nullopt});
        } else {
          backward.insert_or_assign(std::string(name), place);
        }
        return true;
      }));
  MSP_RETURN_IF_ERROR(std::move(wrong));
  if (!scanned.has_data) {
    return BadFormatError(fmt::format("{}: something wrong with dump, no data found in dump.json",
                                      base::Printable(path.string())));
  }
  for (DumpCall& call : read.calls) {
    if (const auto found = backward.find(call.name); found != backward.end()) {
      call.backward = found->second;
    }
  }
  read.framework = scanned.framework.value_or("");
  read.truncated = scanned.truncated;
  if (read.calls.empty()) {
    read.warnings.emplace_back("the dump holds no call of an operator; dump with level L1 or mix");
  }
  dump::ReadOptions options;
  options.allow_truncated = true;
  MSP_ASSIGN_OR_RETURN(
      const dump::DumpHeader header,
      dump::ReadDumpFile(path, options, [](std::string_view, const auto&) { return OkStatus(); }));
  if (header.dump_data_dir && !header.dump_data_dir->empty()) {
    read.tensor_folder = path.parent_path() / "dump_tensor_data";
  }
  return read;
}

namespace {

using dump::EntryTree;
using dump::NodeKind;

// Bits of a call's frame.
constexpr unsigned kWithGradients = 1;
constexpr unsigned kDetached = 2;
constexpr unsigned kBackward = 4;
constexpr unsigned kUnknown = 8;

// Words of the results.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kNoBackward = {
    {{"repeat_interleave", "This API does not have backward input data, skip backward."},
     {"masked_select", "This API does not support backward ut, skip backward."}}};
constexpr std::string_view kOutArgument =
    "function with out=... arguments don't support automatic differentiation, skip backward.";

// For operators with several outputs the one whose gradient is known.
constexpr std::array<std::pair<std::string_view, int64_t>, 2> kGradientIndex = {
    {{"topk", 0}, {"npu_fusion_attention", 0}}};

int64_t GradientIndexOf(std::string_view api) {
  for (const auto& [name, index] : kGradientIndex) {
    if (name == api) {
      return index;
    }
  }
  return -1;
}

uint32_t ChildCount(const EntryTree& tree, uint32_t place) {
  return place == EntryTree::kNone || tree[place].kind != NodeKind::kList ? 0
                                                                          : tree[place].child_count;
}

// The dtype of the first output, where it is one of floats.
std::string OutputDType(const EntryTree& record) {
  const uint32_t outputs = record.Find(0, "output");
  if (ChildCount(record, outputs) == 0 || record[outputs + 1].kind != NodeKind::kObject) {
    return {};
  }
  const uint32_t dtype = record.Find(outputs + 1, "dtype");
  if (dtype == EntryTree::kNone) {
    return {};
  }
  constexpr std::array<std::string_view, 4> kFloats = {"torch.bfloat16", "torch.float16",
                                                       "torch.float32", "torch.float64"};
  const std::string_view text = record[dtype].text;
  return base::IsOneOf(text, kFloats) ? std::string(text.substr(6)) : std::string();
}

// FNV-1a, 32 bits.
uint32_t HashOf(std::string_view text) {
  uint32_t hash = 2166136261U;
  for (const char c : text) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 16777619U;
  }
  return hash;
}

// An argument without the keys that `left_out` names, as text.
std::string TextWithout(const EntryTree& tree, uint32_t place,
                        std::span<const std::string_view> left_out) {
  std::string text;
  tree.ForEachChild(place, [&](uint32_t item) {
    if (!base::IsOneOf(tree[item].key, left_out)) {
      text += fmt::format("{}={};", tree[item].key, dump::CompactText(tree, item));
    }
  });
  return text;
}

}  // namespace

OutputJudgeOptions JudgeOptionsOf(const CheckOptions& options, const MadeCall& made) {
  OutputJudgeOptions judge;
  judge.version = options.version;
  judge.decimals = options.decimals;
  judge.strict = options.strict;
  judge.has_float8_input = made.has_float8_input;
  return judge;
}

std::optional<std::string> CallMaker::WhyNot(std::string_view call_name) const {
  const std::optional<OperatorName> name = ParseOperatorName(call_name);
  const ApiLists& lists = standards_.apis();
  if (!name || base::IsOneOf(name->type, lists.types_never_run)) {
    return fmt::format("API {} not support for {}. SKIP.", call_name,
                       options_.version == StandardVersion::k26 ? "acc_check" : "run ut");
  }
  if (base::IsOneOf(name->api, lists.never_run) || base::IsOneOf(name->api, options_.black_list) ||
      (!options_.white_list.empty() && !base::IsOneOf(name->api, options_.white_list))) {
    return fmt::format("API {} in black list or not in white list. SKIP.", name->api);
  }
  return std::nullopt;
}

CallMaker::Precision CallMaker::PrecisionOf(std::string_view api, const std::set<DType>& dtypes,
                                            const EntryTree& record) const {
  Precision precision;
  if (dtypes.empty()) {
    return precision;
  }
  const bool keeps = base::IsOneOf(api, standards_.apis().keep_dtype);
  if (dtypes.size() > 1) {
    precision.raised = keeps ? "" : "float32";
    for (const DType dtype : dtypes) {
      if (dtype != DType::kFloat32) {
        precision.autocast = DTypeName(dtype);
      }
    }
    return precision;
  }
  const DType only = *dtypes.begin();
  const bool stays = only == DType::kFloat32 && base::IsOneOf(api, standards_.apis().hf32_inputs);
  if (!keeps && !stays) {
    precision.raised = only == DType::kFloat32 ? "float64" : "float32";
  }
  const std::string output = OutputDType(record);
  if (!output.empty() && output != DTypeName(only)) {
    precision.autocast = output;
  }
  return precision;
}

Result<MadeCall> CallMaker::Make(const DumpCall& call, TorchGenerator& stream, SharedMemory& memory,
                                 bool overflow) const {
  MSP_ASSIGN_OR_RETURN(const EntryTree record,
                       records_->Read(call.forward.offset, call.forward.bytes));
  return MakeFrom(call.name, record, call.backward, nullptr, stream, memory, overflow);
}

Result<MadeCall> CallMaker::MakeReceived(const std::string& name, const EntryTree& record,
                                         const TensorSource& tensors, SharedMemory& memory) const {
  TorchGenerator nothing_is_drawn;
  return MakeFrom(name, record, std::nullopt, &tensors, nothing_is_drawn, memory, false);
}

Result<MadeCall> CallMaker::MakeFrom(const std::string& call_name, const EntryTree& record,
                                     const std::optional<RecordPlace>& gradients,
                                     const TensorSource* tensors, TorchGenerator& stream,
                                     SharedMemory& memory, bool overflow) const {
  if (record[0].kind != NodeKind::kObject) {
    return BadFormatError("the record of the call is not an object");
  }
  TorchGenerator own(HashOf(call_name));
  TorchGenerator& generator = options_.seed_per_operator ? own : stream;
  const OperatorName name = *ParseOperatorName(call_name);
  const uint32_t keyword_place = record.Find(0, "input_kwargs");
  const bool has_out = keyword_place != EntryTree::kNone &&
                       record[keyword_place].kind == NodeKind::kObject &&
                       record.Find(keyword_place, "out") != EntryTree::kNone;
  MakeOptions make;
  make.source = tensors;
  if (tensors == nullptr) {
    make.tensor_folder = dump_->tensor_folder;
  }
  make.hf32 = base::IsOneOf(name.api, standards_.apis().hf32_inputs) && !overflow;
  make.with_gradients = !has_out && !overflow;

  // Keywords are drawn first.
  ArgumentMaker keywords(name.api, make, generator, memory);
  FrameWriter keyword_values;
  MSP_RETURN_IF_ERROR(keywords.Keywords(record, keyword_place, keyword_values));
  ArgumentMaker arguments(name.api, make, generator, memory);
  FrameWriter argument_values;
  MSP_RETURN_IF_ERROR(arguments.Positional(record, record.Find(0, "input_args"), argument_values));
  std::set<DType> dtypes = arguments.float_dtypes();
  dtypes.insert(keywords.float_dtypes().begin(), keywords.float_dtypes().end());

  unsigned flags = make.with_gradients ? kWithGradients : 0U;
  flags |= base::IsOneOf(name.api, standards_.apis().keep_attached) ? 0U : kDetached;
  std::string message;
  bool backward = gradients.has_value() && make.with_gradients;
  if (!overflow) {
    for (const auto& [api, text] : kNoBackward) {
      if (api == name.api) {
        message += text;
        backward = false;
      }
    }
    message += has_out ? kOutArgument : "";
  }
  if (!IsKnownApi(name.type, name.api, options_.version)) {
    flags |= kUnknown;
    backward = false;
    message = WhyNotNamed(name.type, name.api, options_.version);
  }

  FrameWriter gradient_values;
  std::string gradient_raised;
  MadeCall made;
  const int64_t index = GradientIndexOf(name.api);
  size_t gradient_count = 0;
  if (backward) {
    MSP_ASSIGN_OR_RETURN(const EntryTree gradient_record,
                         records_->Read(gradients->offset, gradients->bytes));
    const uint32_t list = gradient_record.Find(0, "input");
    const uint32_t recorded = ChildCount(gradient_record, list);
    // Where the output of the gradient is not known, the Python tool draws none.
    const bool is_drawn =
        index >= 0 || (recorded <= 1 && ChildCount(record, record.Find(0, "output")) <= 1);
    TorchGenerator aside = generator;
    ArgumentMaker maker(name.api, make, is_drawn || options_.strict ? generator : aside, memory);
    uint32_t item = list + 1;
    for (uint32_t i = 0; i < recorded && (i == 0 || options_.strict); ++i) {
      MSP_RETURN_IF_ERROR(maker.Gradient(gradient_record, item, gradient_values));
      item = gradient_record[item].end;
      ++gradient_count;
    }
    if (maker.float_dtypes().size() == 1) {
      gradient_raised = PrecisionOf(name.api, maker.float_dtypes(), gradient_record).raised;
    }
    made.gradients = maker.leaves();
    flags |= gradient_count > 0 ? kBackward : 0U;
  }
  Precision precision;
  if (!overflow) {
    precision = PrecisionOf(name.api, dtypes, record);
  }
  made.has_float8_input = arguments.has_float8() || keywords.has_float8();
  if (made.has_float8_input && !overflow) {
    precision.raised = "float32";
  }
  made.arguments = arguments.leaves();
  made.keywords = keywords.leaves();

  FrameWriter frame(FrameKind::kCall);
  frame.Text(name.type);
  frame.Text(name.api);
  frame.Byte(static_cast<uint8_t>(flags));
  frame.Text(precision.raised);
  frame.Text(precision.autocast);
  frame.Text(gradient_raised);
  frame.Integer(index);
  frame.Text(message);
  frame.Append(argument_values);
  frame.Append(keyword_values);
  frame.Tag(frame_tag::kList);
  frame.Count(gradient_count);
  frame.Append(gradient_values);
  made.frame = frame.Finish();
  return made;
}

Result<std::vector<bool>> RepeatedCalls(const DumpCalls& dump, const dump::EntryAccess& records,
                                        bool strict) {
  constexpr std::array<std::string_view, 4> kStatistics = {"Max", "Min", "Mean", "Norm"};
  // The Python tool compares means and norms, and does not look at what is not an object.
  const std::span<const std::string_view> left_out =
      std::span(kStatistics).first(strict ? kStatistics.size() : 2);
  std::vector<bool> repeated(dump.calls.size());
  std::set<std::string> seen;
  for (size_t i = 0; i < dump.calls.size(); ++i) {
    const DumpCall& call = dump.calls[i];
    MSP_ASSIGN_OR_RETURN(const EntryTree record,
                         records.Read(call.forward.offset, call.forward.bytes));
    std::string key = call.name.substr(0, call.name.rfind('.'));
    const auto add = [&](uint32_t place, bool in_arguments) {
      if (place == EntryTree::kNone) {
        return;
      }
      record.ForEachChild(place, [&](uint32_t item) {
        const bool is_object = record[item].kind == NodeKind::kObject;
        if (is_object && (in_arguments || strict)) {
          key += fmt::format("|{}:{}", record[item].key, TextWithout(record, item, left_out));
        } else if (!in_arguments || strict) {
          key += fmt::format("|{}:{}", record[item].key, dump::CompactText(record, item));
        } else {
          key += '|';
        }
      });
    };
    add(record.Find(0, "input_args"), true);
    key += "||";
    add(record.Find(0, "input_kwargs"), false);
    repeated[i] = !seen.insert(std::move(key)).second;
  }
  return repeated;
}

}  // namespace msprobe::analysis::accuracy
