#include "src/capture/filters.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/dump/names.h"

namespace msprobe::capture {
namespace {

constexpr std::string_view kExactMark = "name-exact(";
constexpr std::string_view kExpressionMark = "name-regex(";

}  // namespace

NamePattern::NamePattern(Kind kind, std::string_view text) : kind_(kind), text_(text) {}

Result<NamePattern> NamePattern::Parse(std::string_view element) {
  const bool exact = element.starts_with(kExactMark);
  if (!exact && !element.starts_with(kExpressionMark)) {
    return NamePattern(Kind::kSubstring, element);
  }
  if (!element.ends_with(')')) {
    return UsageError(fmt::format("\"{}\" lacks its closing bracket", base::Printable(element)));
  }
  element.remove_prefix(exact ? kExactMark.size() : kExpressionMark.size());
  element.remove_suffix(1);
  if (exact) {
    return NamePattern(Kind::kExact, element);
  }
  MSP_ASSIGN_OR_RETURN(base::BoundedExpression expression, base::BoundedExpression::Parse(element));
  NamePattern pattern(Kind::kExpression, element);
  pattern.expression_ = std::move(expression);
  return pattern;
}

bool NamePattern::Matches(std::string_view name) {
  switch (kind_) {
    case Kind::kSubstring:
      return name.find(text_) != std::string_view::npos;
    case Kind::kExact:
      return name.starts_with(text_) && (name.size() == text_.size() || name[text_.size()] == '.');
    case Kind::kExpression:
      break;
  }
  if (!expression_) {
    return false;
  }
  const auto outcome = expression_->Search(name);
  if (outcome == base::BoundedExpression::Outcome::kTakesTooLong) {
    base::LogWarning(
        fmt::format("the expression \"{}\" takes too long for the name {}: it selects nothing from "
                    "here on",
                    base::Printable(text_), base::Printable(name)));
    expression_.reset();
  }
  return outcome == base::BoundedExpression::Outcome::kFound;
}

namespace {

using Names = std::unordered_set<std::string_view>;

const Names& CoreApis() {
  static const Names names = {"_fused_adamw_",
                              "_fused_adam_",
                              "matmul",
                              "__matmul__",
                              "bmm",
                              "addmm",
                              "addmm_",
                              "addbmm",
                              "addbmm_",
                              "baddbmm",
                              "baddbmm_",
                              "mm",
                              "mv",
                              "addmv",
                              "addmv_",
                              "addr",
                              "addr_",
                              "linear",
                              "chain_matmul",
                              "conv1d",
                              "conv2d",
                              "conv3d",
                              "conv_transpose1d",
                              "conv_transpose2d",
                              "conv_transpose3d",
                              "conv_tbc",
                              "convolution",
                              "_convolution",
                              "bilinear",
                              "linalg.matmul",
                              "linalg.multi_dot",
                              "multi_dot",
                              "linalg.vecdot",
                              "vecdot",
                              "batch_norm",
                              "instance_norm",
                              "layer_norm",
                              "group_norm",
                              "local_response_norm",
                              "_batch_norm_impl_index",
                              "embedding",
                              "embedding_bag",
                              "multi_head_attention_forward",
                              "scaled_dot_product_attention"};
  return names;
}

const Names& ApisOfLowRisk() {
  static const Names names = {"squeeze",
                              "unsqueeze",
                              "reshape",
                              "reshape_as",
                              "view",
                              "view_as",
                              "flatten",
                              "unflatten",
                              "expand",
                              "expand_as",
                              "repeat",
                              "repeat_interleave",
                              "tile",
                              "transpose",
                              "permute",
                              "moveaxis",
                              "movedim",
                              "swapaxes",
                              "swapdims",
                              "chunk",
                              "unsafe_chunk",
                              "split",
                              "split_with_sizes",
                              "unsafe_split",
                              "unsafe_split_with_sizes",
                              "tensor_split",
                              "hsplit",
                              "vsplit",
                              "dsplit",
                              "unbind",
                              "stack",
                              "cat",
                              "concat",
                              "concatenate",
                              "hstack",
                              "vstack",
                              "dstack",
                              "column_stack",
                              "row_stack",
                              "align_as",
                              "align_to",
                              "atleast_1d",
                              "atleast_2d",
                              "atleast_3d",
                              "ravel",
                              "clamp",
                              "unfold",
                              "type_as",
                              "to",
                              "float",
                              "double",
                              "int",
                              "long",
                              "half",
                              "bfloat16",
                              "byte",
                              "char",
                              "bool",
                              "cfloat",
                              "numpy",
                              "empty",
                              "empty_like",
                              "zeros",
                              "zeros_like",
                              "ones",
                              "ones_like",
                              "full",
                              "full_like",
                              "arange",
                              "linspace",
                              "logspace",
                              "eye",
                              "identity",
                              "diag",
                              "diagflat",
                              "diag_embed",
                              "triu",
                              "tril",
                              "triu_indices",
                              "tril_indices",
                              "clone",
                              "__bool__",
                              "stride"};
  return names;
}

// Fused operators and collectives: each is a place where devices differ.
bool IsOfAccelerator(std::string_view kind) {
  return kind == "NPU" || kind == "Distributed" || kind == "MindSpeed" || kind == "Mindspeed" ||
         kind == "MintDistributed";
}

}  // namespace

bool IsAtRisk(RiskLevel level, std::string_view kind, std::string_view api) {
  switch (level) {
    case RiskLevel::kAll:
      return true;
    case RiskLevel::kFocus:
      return !ApisOfLowRisk().contains(api);
    case RiskLevel::kCore:
      return IsOfAccelerator(kind) || CoreApis().contains(api) || api.starts_with("batch_norm_");
  }
  return true;
}

namespace {

Result<std::vector<NamePattern>> ParsePatterns(std::string_view key,
                                               const std::vector<std::string>& elements) {
  std::vector<NamePattern> patterns;
  for (const std::string& element : elements) {
    MSP_ASSIGN_OR_RETURN(NamePattern pattern, NamePattern::Parse(element),
                         fmt::format("key \"{}\"", key));
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

bool AnyMatches(std::vector<NamePattern>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](NamePattern& pattern) { return pattern.Matches(name); });
}

// The level decides which windows exist: calls of APIs, of modules, or of both. Prefixes are not
// checked against a list: scripts may register APIs under their own.
Status CheckScopeName(std::string_view name, Level level) {
  const dump::EntryName parsed = dump::ParseEntryName(name);
  const bool is_call = parsed.call && parsed.direction != dump::Direction::kNone;
  const bool is_module = is_call && parsed.is_module && !parsed.class_name.empty();
  const bool is_api = is_call && !parsed.is_module && !parsed.is_debug && !parsed.kind.empty() &&
                      !parsed.subject.empty();
  if ((is_module && level != Level::kL1) || (is_api && level != Level::kL0)) {
    return {};
  }
  const char* form = level == Level::kL0   ? "Module.fc.Linear.forward.0"
                     : level == Level::kL1 ? "Functional.linear.0.forward"
                                           : "Functional.linear.0.forward or "
                                             "Module.fc.Linear.forward.0";
  return UsageError(
      fmt::format("key \"scope\": \"{}\" names no call of level {}; allowed: full "
                  "names like {}",
                  base::Printable(name), LevelName(level), form));
}

}  // namespace

struct Filters::State {
  std::vector<NamePattern> list;
  std::vector<NamePattern> tensor_list;
  bool has_scope = false;
  std::string scope_begin;
  std::string scope_end;
  Task task = Task::kStatistics;
  bool module_windows = false;
  bool extra_info = true;
  DataMode data_mode;

  bool scope_open = false;
  std::vector<std::string> open_modules;             // calls that opened a window of the list
  std::unordered_set<std::string> backward_modules;  // recorded in this step, if that matters

  RiskLevel risk_level = RiskLevel::kAll;  // where nothing else selects calls of APIs

  bool Filtered() const { return has_scope || !list.empty(); }

  bool Selects(std::string_view name) {
    return (!has_scope || scope_open) &&
           (list.empty() || !open_modules.empty() || AnyMatches(list, name));
  }

  // The parts of a call that the windows select at this moment.
  Wanted Answer(std::string_view name, const dump::EntryName& parsed) {
    if (!Selects(name) || (risk_level != RiskLevel::kAll && !parsed.is_module &&
                           !IsAtRisk(risk_level, parsed.kind, parsed.subject))) {
      return {};
    }
    const bool backward = parsed.direction == dump::Direction::kBackward;
    if (backward && parsed.is_module && Filtered()) {
      backward_modules.emplace(name.substr(0, name.rfind(".backward.")));
    }
    const bool half = backward ? data_mode.backward : data_mode.forward;
    return {half && data_mode.input, half && data_mode.output, !backward && extra_info};
  }
};

Filters::Filters(std::unique_ptr<State> state) : state_(std::move(state)) {}

Filters::Filters(Filters&&) noexcept = default;

Filters& Filters::operator=(Filters&&) noexcept = default;

Filters::~Filters() = default;

Result<Filters> Filters::Create(const Settings& settings) {
  auto state = std::make_unique<State>();
  MSP_ASSIGN_OR_RETURN(state->list, ParsePatterns("list", settings.list));
  MSP_ASSIGN_OR_RETURN(state->tensor_list, ParsePatterns("tensor_list", settings.tensor_list));
  if (settings.scope.size() == 2) {
    for (const std::string& name : settings.scope) {
      MSP_RETURN_IF_ERROR(CheckScopeName(name, settings.level));
    }
    state->has_scope = true;
    state->scope_begin = settings.scope[0];
    state->scope_end = settings.scope[1];
  }
  const bool has_apis = settings.level == Level::kL1 || settings.level == Level::kMix;
  if (has_apis && !state->Filtered()) {
    state->risk_level = settings.risk_level;
  }
  state->task = settings.task;
  state->module_windows = settings.level == Level::kMix && !settings.list.empty();
  state->extra_info = settings.extra_info;
  state->data_mode = settings.data_mode;
  return Filters(std::move(state));
}

Wanted Filters::Enter(std::string_view name) {
  const dump::EntryName parsed = dump::ParseEntryName(name);
  if (state_->has_scope && name == state_->scope_begin) {
    state_->scope_open = true;
  }
  if (state_->module_windows && parsed.is_module && AnyMatches(state_->list, name)) {
    state_->open_modules.emplace_back(name);
  }
  return state_->Answer(name, parsed);
}

Wanted Filters::Leave(std::string_view name) {
  // A call that had entered before anybody listened opens its window at its end.
  if (state_->has_scope && name == state_->scope_begin) {
    state_->scope_open = true;
  }
  const Wanted wanted = state_->Answer(name, dump::ParseEntryName(name));
  if (state_->has_scope && name == state_->scope_end) {
    state_->scope_open = false;
  }
  if (const auto open = std::find(state_->open_modules.begin(), state_->open_modules.end(), name);
      open != state_->open_modules.end()) {
    state_->open_modules.erase(open);
  }
  return wanted;
}

bool Filters::WantsParametersGrad(std::string_view module) {
  if (state_->task == Task::kStructure || !state_->data_mode.backward) {
    return false;
  }
  if (!state_->Filtered() || state_->backward_modules.contains(std::string(module))) {
    return true;
  }
  // Gradients belong to the backward pass: a scope that was open in the forward pass says nothing
  // about them.
  return !state_->has_scope && state_->Selects(module);
}

bool Filters::SavesTensors(std::string_view name) const {
  return state_->task == Task::kTensor || state_->task == Task::kOverflowCheck ||
         ((state_->task == Task::kStatistics || state_->task == Task::kNanCheck) &&
          AnyMatches(state_->tensor_list, name));
}

bool Filters::has_windows() const { return state_->Filtered(); }

void Filters::NextStep() {
  // A module that raised never left.
  state_->open_modules.clear();
  state_->backward_modules.clear();
}

}  // namespace msprobe::capture
