#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/rules.h"
#include "src/analysis/config_check/secrets.h"
#include "src/analysis/config_check/values.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/json/value_text.h"

namespace msprobe::analysis::config_check {
namespace {

using json::ValueKind;
using json::ValueTree;
using report::Cell;

constexpr std::string_view kError = "error";
constexpr std::string_view kWarning = "warning";

// A value of either side: in the pack, or the default in the rules.
struct Value {
  const ValueTree* tree = nullptr;
  uint32_t node = 0;
};

// The environment that one of the packs recorded.
class PackEnvironment {
 public:
  PackEnvironment(const Pack& pack, ValueTree tree, ValueTree origins)
      : label_(pack.label()),
        tree_(std::move(tree)),
        variables_(tree_, 0),
        origin_tree_(std::move(origins)),
        origins_(origin_tree_, 0) {
    const auto any = [this](std::initializer_list<std::string_view> words) {
      return std::any_of(variables_.begin(), variables_.end(), [&](const Members::Member& member) {
        return base::ContainsAny(member.key, words);
      });
    };
    is_npu_ = any({"ASCEND"});
    // CUDA_DEVICE_MAX_CONNECTIONS stands in scripts for any device.
    sees_device_ = is_npu_ || any({"CUDA_VISIBLE", "CUDA_LAUNCH", "CUDA_HOME", "CUDA_PATH",
                                   "CUDA_VERSION", "NVIDIA", "ROCM", "HIP_"});
  }
  PackEnvironment(const PackEnvironment&) = delete;
  PackEnvironment& operator=(const PackEnvironment&) = delete;

  const std::string& label() const { return label_; }
  std::string_view device() const { return is_npu_ ? "npu" : "gpu"; }
  bool MayBe(std::string_view device) const {
    return device.empty() || device == this->device() || !sees_device_;
  }
  // Where no device is seen, the variable that is set, here or on the other side, tells which
  // device is meant.
  const VariableOnDevice& Definition(const VariableRule& rule, const PackEnvironment& other) const {
    if (is_npu_) {
      return rule.npu;
    }
    const bool means_npu = !sees_device_ && !rule.npu.name.empty() && !Sets(rule.gpu.name) &&
                           (Sets(rule.npu.name) ||
                            (!other.sees_device_ && !other.is_npu_ && !other.Sets(rule.gpu.name) &&
                             other.Sets(rule.npu.name)) ||
                            (other.is_npu_ && Sets(rule.npu.name)));
    return means_npu ? rule.npu : rule.gpu;
  }

  std::optional<Value> Find(std::string_view name) const {
    const uint32_t node = variables_.Find(name);
    if (node == ValueTree::kNone || (ignore_collector_ && SetByCollector(name))) {
      return std::nullopt;
    }
    return Value{&tree_, node};
  }

  // The variables that launch scripts set.
  const Members& origins() const { return origins_; }
  // " (train.sh line 3)" of a variable that a launch script sets.
  std::string Origin(std::string_view name) const {
    const uint32_t node = origins_.Find(name);
    return node == ValueTree::kNone
               ? std::string()
               : fmt::format(" ({})", base::Printable(origin_tree_[node].text));
  }

  // The Python tool's own start sets two variables before it looks at the environment.
  bool polluted() const {
    return TextOf("PYTHONHASHSEED") == "1234" && TextOf("HCCL_DETERMINISTIC") == "False";
  }
  void IgnoreCollector() { ignore_collector_ = polluted(); }

 private:
  static bool SetByCollector(std::string_view name) {
    return name == "PYTHONHASHSEED" || name == "HCCL_DETERMINISTIC";
  }
  bool Sets(std::string_view name) const {
    return !name.empty() && Find(name).has_value() && !(polluted() && SetByCollector(name));
  }
  std::string_view TextOf(std::string_view name) const {
    const uint32_t node = variables_.Find(name);
    return node == ValueTree::kNone ? std::string_view() : tree_[node].text;
  }

  std::string label_;
  ValueTree tree_;
  Members variables_;
  ValueTree origin_tree_;
  Members origins_;
  bool is_npu_ = false;
  bool sees_device_ = false;  // false: only by default it is a gpu
  bool ignore_collector_ = false;
};

std::string Text(const Value& value) { return json::PythonStr(*value.tree, value.node); }

// One spelling for what means the same: "0", "false", "off"; "1", "true", "on"; "None" and "".
std::string Meaning(const Value& value) {
  std::string text = base::AsciiLower(base::Trim(Text(value)));
  if (text == "false" || text == "off" || text == "no") {
    return "0";
  }
  if (text == "true" || text == "on" || text == "yes") {
    return "1";
  }
  if (text == "none") {
    return "";
  }
  return text;
}

bool SameMeaning(const Value& a, const Value& b) {
  const std::string meaning_a = Meaning(a);
  const std::string meaning_b = Meaning(b);
  if (meaning_a == meaning_b) {
    return true;
  }
  const std::optional<double> number_a = base::ParseDouble(meaning_a);
  const std::optional<double> number_b = base::ParseDouble(meaning_b);
  return number_a && number_b && *number_a == *number_b;
}

bool Empty(const Value& value) {
  return (*value.tree)[value.node].kind == ValueKind::kText &&
         (*value.tree)[value.node].text.empty();
}

// The sheet of the Python tool has the sides exchanged: what it calls bench is the second pack.
// Who reads that sheet by program relies on it, so rows keep it; findings name the sides as they
// are.
class EnvCheck {
 public:
  EnvCheck(const Rules& rules, const CheckOptions& options, const PackEnvironment& bench,
           const PackEnvironment& cmp)
      : rules_(rules), options_(options), bench_(bench), cmp_(cmp), left_(cmp), right_(bench) {
    result_.part = Part::kEnv;
    result_.table = report::Table(
        "env", {"bench_env_name", "cmp_env_name", "bench_value", "cmp_value", "level"});
  }

  CheckResult Run() {
    for (const VariableRule& rule : rules_.variables) {
      Compare(rule);
    }
    if (!spelling_.examples.empty()) {
      spelling_.part = Part::kEnv;
      spelling_.severity = Severity::kWarning;
      spelling_.what = "variables with the same meaning but different spelling fail the check";
      spelling_.fix = "--normalize-env leaves them out";
      result_.findings.push_back(std::move(spelling_));
    }
    if (!one_side_.examples.empty()) {
      one_side_.part = Part::kEnv;
      one_side_.severity = Severity::kNote;
      one_side_.what =
          fmt::format("bench ran on {}, cmp on {}: some variables have no counterpart there",
                      bench_.device(), cmp_.device());
      result_.findings.push_back(std::move(one_side_));
    }
    CompareScriptVariables();
    CompareFurther();
    for (const PackEnvironment* side : {&bench_, &cmp_}) {
      if (side->polluted()) {
        Finding finding;
        finding.severity = Severity::kNote;
        finding.part = Part::kEnv;
        finding.what = fmt::format(
            "{}: PYTHONHASHSEED=1234 and HCCL_DETERMINISTIC=False were probably set by the "
            "Python "
            "tool while it collected, not by you",
            side->label());
        finding.fix = options_.ignore_collector_env
                          ? ""
                          : "--ignore-collector-env leaves both out; collect with this program to "
                            "record the environment as it is";
        result_.findings.push_back(std::move(finding));
      }
    }
    result_.passed = result_.errors == 0;
    return std::move(result_);
  }

 private:
  Value Default(const VariableOnDevice& definition) const {
    return {&rules_.tree, definition.default_node};
  }

  void AddRow(std::string_view left_name, std::string_view right_name,
              const std::optional<Value>& left, const std::optional<Value>& right,
              std::string_view level) {
    report::Table& table = result_.table;
    const auto cell = [&table](const std::optional<Value>& value) {
      return value ? ValueCell(table, *value->tree, value->node) : Cell();
    };
    const std::array<Cell, 5> cells = {table.KeepText(left_name), table.KeepText(right_name),
                                       cell(left), cell(right), Cell::Text(level)};
    table.AddRow(cells);
    ++(level == kError ? result_.errors : result_.warnings);
  }

  void Compare(const VariableRule& rule) {
    const VariableOnDevice& on_left = left_.Definition(rule, right_);
    const VariableOnDevice& on_right = right_.Definition(rule, left_);
    if (!on_left.name.empty() && !on_right.name.empty()) {
      ruled_.insert({on_left.name, on_right.name});
    }
    if (!on_right.name.empty()) {
      const std::optional<Value> set_in_right = right_.Find(on_right.name);
      const Value right = set_in_right.value_or(Default(on_right));
      if (on_left.name.empty()) {
        AddRow("only cmp has this env", on_right.name, std::nullopt, right, kWarning);
        AddExample(one_side_, fmt::format("{} ({})", on_right.name, right_.label()));
        return;
      }
      const std::optional<Value> set_in_left = left_.Find(on_left.name);
      const Value left = set_in_left.value_or(Default(on_left));
      if (PythonEqual(*left.tree, left.node, *right.tree, right.node)) {
        return;
      }
      const bool same_meaning = SameMeaning(left, right);
      if (same_meaning && options_.normalize_env) {
        return;
      }
      AddRow(on_left.name, on_right.name, left, right, kError);
      Tell(rule, on_right.name, on_left.name, {right, set_in_right.has_value()},
           {left, set_in_left.has_value()}, same_meaning);
      return;
    }
    if (on_left.name.empty()) {
      return;
    }
    std::optional<Value> left = left_.Find(on_left.name);
    if (!left || Empty(*left)) {
      left = Default(on_left);
    }
    AddRow(on_left.name, "only bench has this env", left, std::nullopt, kWarning);
    AddExample(one_side_, fmt::format("{} ({})", on_left.name, left_.label()));
  }

  void Tell(const VariableRule& rule, const std::string& bench_name, const std::string& cmp_name,
            std::pair<Value, bool> bench, std::pair<Value, bool> cmp, bool same_meaning) {
    const auto shown = [](const std::pair<Value, bool>& value, const PackEnvironment& side,
                          std::string_view name) {
      return value.second ? Shown(Text(value.first)) + side.Origin(name)
                          : fmt::format("not set ({})", Shown(Text(value.first)));
    };
    const std::string bench_shown = shown(bench, bench_, bench_name);
    const std::string cmp_shown = shown(cmp, cmp_, cmp_name);
    const std::string name =
        bench_name == cmp_name ? bench_name : fmt::format("{} / {}", bench_name, cmp_name);
    std::string example = fmt::format("{}: {} / {}", name, bench_shown, cmp_shown);
    if (same_meaning) {
      AddExample(spelling_, std::move(example));
      return;
    }
    Finding finding;
    finding.part = Part::kEnv;
    finding.what = fmt::format("{} differs", name);
    finding.examples = {fmt::format("bench {}, cmp {}", bench_shown, cmp_shown)};
    finding.why = rule.why;
    finding.fix = rule.fix;
    const bool told =
        std::any_of(result_.findings.begin(), result_.findings.end(),
                    [&finding](const Finding& other) { return other.what == finding.what; });
    if (!told) {  // two rules may look at one variable
      result_.findings.push_back(std::move(finding));
    }
  }

  // What launch scripts set is meant: it counts whatever its name is. Those of the table fail the
  // check.
  void CompareScriptVariables() {
    std::set<std::string_view> names;
    for (const PackEnvironment* side : {&bench_, &cmp_}) {
      for (const Members::Member& member : side->origins()) {
        names.insert(member.key);
      }
    }
    Finding errors;
    Finding warnings;
    for (const std::string_view name : names) {
      const std::optional<Value> bench = bench_.Find(name);
      const std::optional<Value> cmp = cmp_.Find(name);
      const bool same =
          bench && cmp ? SameMeaning(*bench, *cmp) : bench.has_value() == cmp.has_value();
      if (ruled_.count(name) > 0 || same || rules_.IsLocal(name)) {
        continue;
      }
      const bool matters = rules_.Compares(name);
      told_.insert(std::string(name));
      AddRow(name, name, cmp, bench, matters ? kError : kWarning);
      const auto shown = [name](const std::optional<Value>& value, const PackEnvironment& side) {
        return value ? Shown(Text(*value)) + side.Origin(name) : std::string("not set");
      };
      AddExample(matters ? errors : warnings, fmt::format("{}: {} / {}", base::Printable(name),
                                                          shown(bench, bench_), shown(cmp, cmp_)));
    }
    Finding* const findings[] = {&errors, &warnings};
    for (size_t i = 0; i < 2; ++i) {
      if (!findings[i]->examples.empty()) {
        findings[i]->part = Part::kEnv;
        findings[i]->severity = i == 0 ? Severity::kError : Severity::kWarning;
        findings[i]->what = "variables that launch scripts set differ";
        findings[i]->fix = "set them to the same value in both scripts";
        result_.findings.push_back(std::move(*findings[i]));
      }
    }
  }

  void CompareFurther() {
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.part = Part::kEnv;
    finding.what = "further variables that affect precision differ (not in the workbook)";
    for (const FurtherVariable& variable : rules_.further_variables) {
      if (told_.count(variable.name) > 0) {
        continue;
      }
      const bool comparable = bench_.MayBe(variable.device) && cmp_.MayBe(variable.device);
      const std::optional<Value> bench = bench_.Find(variable.name);
      const std::optional<Value> cmp = cmp_.Find(variable.name);
      const bool same =
          bench && cmp ? SameMeaning(*bench, *cmp) : bench.has_value() == cmp.has_value();
      if (comparable && !same) {
        const auto shown = [](const std::optional<Value>& value) {
          return value ? Shown(Text(*value)) : std::string("not set");
        };
        finding.examples.push_back(
            fmt::format("{}: {} / {} ({})", variable.name, shown(bench), shown(cmp), variable.why));
      }
    }
    if (!finding.examples.empty()) {
      finding.fix = "set them to the same value";
      result_.findings.push_back(std::move(finding));
    }
  }

  const Rules& rules_;
  const CheckOptions& options_;
  const PackEnvironment& bench_;
  const PackEnvironment& cmp_;
  const PackEnvironment& left_;   // in the columns headed bench
  const PackEnvironment& right_;  // in the columns headed cmp
  CheckResult result_;
  Finding spelling_;
  Finding one_side_;
  std::set<std::string, std::less<>> ruled_;  // variables of rules that were compared
  std::set<std::string, std::less<>> told_;   // variables of launch scripts
};

Result<ValueTree> ReadOrigins(const Pack& pack) {
  return pack.HasMember(kScriptEnvMember) ? pack.ReadJsonObject(kScriptEnvMember)
                                          : json::ParseValueTree("{}");
}

}  // namespace

Result<CheckResult> CheckEnv(const PackPair& packs, const CheckOptions& options) {
  MSP_ASSIGN_OR_RETURN(const ValueTree bench_tree, packs.bench.ReadJsonObject(kEnvMember));
  MSP_ASSIGN_OR_RETURN(const ValueTree cmp_tree, packs.cmp.ReadJsonObject(kEnvMember));
  // What is not set counts by its default, but an environment without any variable is none.
  const bool has_variables = bench_tree[0].child_count > 0 && cmp_tree[0].child_count > 0;
  MSP_ASSIGN_OR_RETURN(ValueTree bench_origins, ReadOrigins(packs.bench));
  MSP_ASSIGN_OR_RETURN(ValueTree cmp_origins, ReadOrigins(packs.cmp));
  PackEnvironment bench(packs.bench, MaskParameters(bench_tree).tree, std::move(bench_origins));
  PackEnvironment cmp(packs.cmp, MaskParameters(cmp_tree).tree, std::move(cmp_origins));
  if (options.ignore_collector_env) {
    bench.IgnoreCollector();
    cmp.IgnoreCollector();
  }
  CheckResult result = EnvCheck(BuiltInRules(), options, bench, cmp).Run();
  result.compared = has_variables;
  return result;
}

}  // namespace msprobe::analysis::config_check
