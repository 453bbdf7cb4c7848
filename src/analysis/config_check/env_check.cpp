#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/packages.h"
#include "src/analysis/config_check/parameters.h"
#include "src/analysis/config_check/rules.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/report/advice.h"

namespace msprobe::analysis::config_check {
namespace {

using json::Json;
using report::Cell;

constexpr std::string_view kError = "error";
constexpr std::string_view kWarning = "warning";

// The environment that one of the packs recorded.
class PackEnvironment {
 public:
  PackEnvironment(const Pack& pack, Json variables, Json origins)
      : label_(pack.label()),
        variable_tree_(std::move(variables)),
        variables_(variable_tree_),
        origin_tree_(std::move(origins)),
        origins_(origin_tree_) {
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

  // nullptr where it is not set.
  const Json* Find(std::string_view name) const {
    return ignore_collector_ && SetByCollector(name) ? nullptr : variables_.Find(name);
  }

  // The variables that launch scripts set.
  const Members& origins() const { return origins_; }
  // " (train.sh line 3)" of a variable that a launch script sets.
  std::string Origin(std::string_view name) const {
    const Json* const origin = origins_.Find(name);
    return origin == nullptr ? std::string()
                             : fmt::format(" ({})", base::Printable(json::TextOf(*origin)));
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
    return !name.empty() && Find(name) != nullptr && !(polluted() && SetByCollector(name));
  }
  std::string_view TextOf(std::string_view name) const {
    const Json* const value = variables_.Find(name);
    return value == nullptr ? std::string_view() : json::TextOf(*value);
  }

  std::string label_;
  Json variable_tree_;
  Members variables_;
  Json origin_tree_;
  Members origins_;
  bool is_npu_ = false;
  bool sees_device_ = false;  // false: only by default it is a gpu
  bool ignore_collector_ = false;
};

// One spelling for what means the same: "0", "false", "off"; "1", "true", "on"; "None" and "".
std::string Meaning(const Json& value) {
  std::string text = base::AsciiLower(base::Trim(json::PythonStr(value)));
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

bool SameMeaning(const Json& a, const Json& b) {
  const std::string meaning_a = Meaning(a);
  const std::string meaning_b = Meaning(b);
  if (meaning_a == meaning_b) {
    return true;
  }
  const std::optional<double> number_a = base::ParseDouble(meaning_a);
  const std::optional<double> number_b = base::ParseDouble(meaning_b);
  return number_a && number_b && *number_a == *number_b;
}

bool IsEmptyText(const Json& value) { return value.is_string() && json::TextOf(value).empty(); }

// The sheet of the Python tool has the sides exchanged: what it calls bench is the second pack.
// Programs that read that sheet rely on it, so the rows keep it; findings name the sides as they
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
      spelling_.fix = report::AdviceText("config_check.normalize_env");
      result_.findings.push_back(std::move(spelling_));
    }
    if (!one_side_.examples.empty()) {
      one_side_.part = Part::kEnv;
      one_side_.severity = Severity::kNote;
      one_side_.what =
          fmt::format("the test ran on {}, the reference on {}: some variables have no counterpart",
                      cmp_.device(), bench_.device());
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
                          : report::AdviceText("config_check.ignore_collector_env");
        result_.findings.push_back(std::move(finding));
      }
    }
    result_.passed = result_.errors == 0;
    return std::move(result_);
  }

 private:
  // A value is null where the variable is not set.
  void AddRow(std::string_view left_name, std::string_view right_name, const Json* left,
              const Json* right, std::string_view level) {
    report::Table& table = result_.table;
    const auto cell = [&table](const Json* value) {
      return value != nullptr ? ValueCell(table, *value) : Cell();
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
      const Json* const set_in_right = right_.Find(on_right.name);
      const Json& right = set_in_right != nullptr ? *set_in_right : *on_right.default_value;
      if (on_left.name.empty()) {
        AddRow("only cmp has this env", on_right.name, nullptr, &right, kWarning);
        AddExample(one_side_, fmt::format("{} ({})", on_right.name, right_.label()));
        return;
      }
      const Json* const set_in_left = left_.Find(on_left.name);
      const Json& left = set_in_left != nullptr ? *set_in_left : *on_left.default_value;
      if (PythonEqual(left, right)) {
        return;
      }
      const bool same_meaning = SameMeaning(left, right);
      if (same_meaning && options_.normalize_env) {
        return;
      }
      AddRow(on_left.name, on_right.name, &left, &right, kError);
      Tell(rule, on_right.name, on_left.name, {&right, set_in_right != nullptr},
           {&left, set_in_left != nullptr}, same_meaning);
      return;
    }
    if (on_left.name.empty()) {
      return;
    }
    const Json* left = left_.Find(on_left.name);
    if (left == nullptr || IsEmptyText(*left)) {
      left = on_left.default_value;
    }
    AddRow(on_left.name, "only bench has this env", left, nullptr, kWarning);
    AddExample(one_side_, fmt::format("{} ({})", on_left.name, left_.label()));
  }

  void Tell(const VariableRule& rule, const std::string& bench_name, const std::string& cmp_name,
            std::pair<const Json*, bool> bench, std::pair<const Json*, bool> cmp,
            bool same_meaning) {
    const auto shown = [](std::pair<const Json*, bool> value, const PackEnvironment& side,
                          std::string_view name) {
      const std::string text = Shown(json::PythonStr(*value.first));
      return value.second ? text + side.Origin(name) : fmt::format("not set ({})", text);
    };
    const std::string bench_shown = shown(bench, bench_, bench_name);
    const std::string cmp_shown = shown(cmp, cmp_, cmp_name);
    const std::string name =
        bench_name == cmp_name ? bench_name : fmt::format("{} / {}", cmp_name, bench_name);
    std::string example = fmt::format("{}: {} / {}", name, cmp_shown, bench_shown);
    if (same_meaning) {
      AddExample(spelling_, std::move(example));
      return;
    }
    Finding finding;
    finding.part = Part::kEnv;
    finding.what = fmt::format("{} differs", name);
    finding.examples = {fmt::format("test {}, reference {}", cmp_shown, bench_shown)};
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
      const Json* const bench = bench_.Find(name);
      const Json* const cmp = cmp_.Find(name);
      const bool same =
          bench != nullptr && cmp != nullptr ? SameMeaning(*bench, *cmp) : bench == cmp;
      if (ruled_.count(name) > 0 || same || rules_.IsLocal(name)) {
        continue;
      }
      const bool matters = rules_.Compares(name);
      told_.insert(std::string(name));
      AddRow(name, name, cmp, bench, matters ? kError : kWarning);
      const auto shown = [name](const Json* value, const PackEnvironment& side) {
        return value != nullptr ? Shown(json::PythonStr(*value)) + side.Origin(name)
                                : std::string("not set");
      };
      AddExample(matters ? errors : warnings, fmt::format("{}: {} / {}", base::Printable(name),
                                                          shown(cmp, cmp_), shown(bench, bench_)));
    }
    Finding* const findings[] = {&errors, &warnings};
    for (size_t i = 0; i < 2; ++i) {
      if (!findings[i]->examples.empty()) {
        findings[i]->part = Part::kEnv;
        findings[i]->severity = i == 0 ? Severity::kError : Severity::kWarning;
        findings[i]->what = "variables that launch scripts set differ";
        findings[i]->fix = report::AdviceText("config_check.same_in_scripts");
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
      const Json* const bench = bench_.Find(variable.name);
      const Json* const cmp = cmp_.Find(variable.name);
      const bool same =
          bench != nullptr && cmp != nullptr ? SameMeaning(*bench, *cmp) : bench == cmp;
      if (comparable && !same) {
        const auto shown = [](const Json* value) {
          return value != nullptr ? Shown(json::PythonStr(*value)) : std::string("not set");
        };
        finding.examples.push_back(
            fmt::format("{}: {} / {} ({})", variable.name, shown(cmp), shown(bench), variable.why));
      }
    }
    if (!finding.examples.empty()) {
      finding.fix = report::AdviceText("config_check.same_value");
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

Result<Json> ReadOrigins(const Pack& pack) {
  return pack.HasMember(kScriptEnvMember) ? pack.ReadJsonObject(kScriptEnvMember)
                                          : Result<Json>(Json::object());
}

}  // namespace

Result<CheckResult> CheckEnv(const PackPair& packs, const CheckOptions& options) {
  MSP_ASSIGN_OR_RETURN(Json bench_variables, packs.bench.ReadJsonObject(kEnvMember));
  MSP_ASSIGN_OR_RETURN(Json cmp_variables, packs.cmp.ReadJsonObject(kEnvMember));
  // What is not set counts by its default, but an environment without any variable is none.
  const bool has_variables = !bench_variables.empty() && !cmp_variables.empty();
  MSP_ASSIGN_OR_RETURN(Json bench_origins, ReadOrigins(packs.bench));
  MSP_ASSIGN_OR_RETURN(Json cmp_origins, ReadOrigins(packs.cmp));
  MaskParameters(bench_variables);
  MaskParameters(cmp_variables);
  PackEnvironment bench(packs.bench, std::move(bench_variables), std::move(bench_origins));
  PackEnvironment cmp(packs.cmp, std::move(cmp_variables), std::move(cmp_origins));
  if (options.ignore_collector_env) {
    bench.IgnoreCollector();
    cmp.IgnoreCollector();
  }
  CheckResult result = EnvCheck(BuiltInRules(), options, bench, cmp).Run();
  result.compared = has_variables;
  return result;
}

namespace {

struct Package {
  std::string name;            // as listed
  std::string version;         // all behind the first "="
  std::string strict_version;  // as the Python tool reads it: empty when there are more "="
};

class Packages {
 public:
  explicit Packages(std::string_view list) {
    for (std::string_view line : base::Split(list, '\n')) {
      line = base::Trim(line);
      const size_t sign = line.find('=');
      const std::string_view name = line.substr(0, sign);
      std::string_view version = sign == std::string_view::npos ? "" : line.substr(sign + 1);
      const bool two_parts = version.find('=') == std::string_view::npos;
      const std::string strict(two_parts ? version : "");
      if (version.starts_with('=')) {  // NAME==VERSION
        version.remove_prefix(1);
      }
      if (!name.empty()) {
        const Package package = {std::string(name), std::string(version), strict};
        by_name_[package.name] = package;
        by_normal_name_[internal::NormalName(name)] = package;
      }
    }
  }

  const Package* Exact(const std::string& name) const { return Find(by_name_, name); }
  const Package* AnySpelling(const std::string& name) const {
    return Find(by_normal_name_, internal::NormalName(name));
  }

 private:
  static const Package* Find(const std::map<std::string, Package>& map, const std::string& name) {
    const auto found = map.find(name);
    return found == map.end() ? nullptr : &found->second;
  }

  std::map<std::string, Package> by_name_;  // later lines win
  std::map<std::string, Package> by_normal_name_;
};

using Version = std::optional<std::string>;

std::string VersionText(const Version& version) {
  return version && !version->empty() ? *version : "None";
}

// "2.1.0+cu118" and "2.1.0" are builds of one version.
bool SameRelease(const Version& a, const Version& b) {
  return a && b && a->substr(0, a->find('+')) == b->substr(0, b->find('+'));
}

class PipCheck {
 public:
  PipCheck(const Rules& rules, const CheckOptions& options, const Packages& bench,
           const Packages& cmp)
      : rules_(rules), options_(options), bench_(bench), cmp_(cmp) {
    result_.part = Part::kPip;
    result_.table = report::Table("pip", {"package", "bench version", "cmp version", "level"});
    differing_.part = builds_.part = unseen_.part = one_side_.part = Part::kPip;
  }

  CheckResult Run() {
    std::vector<std::string> names = rules_.packages;
    if (!options_.framework.empty()) {
      names.push_back(options_.framework);
    }
    for (const std::string& name : names) {
      CompareStandard(name);
    }
    if (!options_.compat) {
      for (const FurtherPackage& package : rules_.further_packages) {
        if (std::find(names.begin(), names.end(), package.name) == names.end()) {
          CompareFurther(package);
        }
      }
    }
    TellFindings();
    result_.compared = compared_;
    result_.passed = result_.errors == 0;
    return std::move(result_);
  }

 private:
  void CompareStandard(const std::string& name) {
    const Package* bench = bench_.Exact(name);
    const Package* cmp = cmp_.Exact(name);
    const bool any_spelling =
        options_.normalize_pip || (!options_.compat && bench == nullptr && cmp == nullptr);
    if (any_spelling) {
      CompareFurther({name, true});
      return;
    }
    const auto version = [](const Package* package) {
      return package == nullptr ? Version() : Version(package->strict_version);
    };
    compared_ = compared_ || bench != nullptr || cmp != nullptr;
    if (version(bench) == version(cmp)) {
      return;
    }
    AddRow(name, version(bench), version(cmp), true);
    const Package* bench_any = bench_.AnySpelling(name);
    const Package* cmp_any = cmp_.AnySpelling(name);
    const auto unseen = [](const Package* exact, const Package* any) {
      return any != nullptr && (exact == nullptr || exact->strict_version != exact->version);
    };
    if (unseen(bench, bench_any) || unseen(cmp, cmp_any)) {
      AddExample(unseen_, fmt::format("{}: {} / {}", name, Listed(cmp_any), Listed(bench_any)));
    }
  }

  static std::string Listed(const Package* package) {
    return package == nullptr ? "none" : Shown(package->name + "=" + package->version);
  }

  void CompareFurther(const FurtherPackage& rule) {
    const auto version = [](const Package* package) {
      return package == nullptr ? Version() : Version(package->version);
    };
    const Version bench = version(bench_.AnySpelling(rule.name));
    const Version cmp = version(cmp_.AnySpelling(rule.name));
    compared_ = compared_ || bench || cmp;
    if (bench == cmp) {
      return;
    }
    if (SameRelease(bench, cmp)) {
      AddRow(rule.name, bench, cmp, false);
      AddExample(builds_, fmt::format("{}: {} / {}", rule.name, Shown(*cmp), Shown(*bench)));
      return;
    }
    const bool error = (bench && cmp) || rule.one_side_is_error;
    AddRow(rule.name, bench, cmp, error);
    if (!error) {
      AddExample(one_side_, fmt::format("{}: {} / {}", rule.name, Shown(VersionText(cmp)),
                                        Shown(VersionText(bench))));
    }
  }

  void AddRow(const std::string& name, const Version& bench, const Version& cmp, bool error) {
    report::Table& table = result_.table;
    const std::array<Cell, 4> cells = {table.KeepText(name), table.KeepText(VersionText(bench)),
                                       table.KeepText(VersionText(cmp)),
                                       Cell::Text(error ? "error" : "warning")};
    table.AddRow(cells);
    ++(error ? result_.errors : result_.warnings);
    if (error) {
      ++differing_count_;
      AddExample(differing_, fmt::format("{}: {} / {}", name, Shown(VersionText(cmp)),
                                         Shown(VersionText(bench))));
    }
  }

  void TellFindings() {
    if (differing_count_ > 0) {
      const Remedy& remedy = rules_.RemedyOf("pip");
      differing_.what = fmt::format("{} of the packages that matter differ{}", differing_count_,
                                    differing_count_ == 1 ? "s" : "");
      differing_.why = remedy.why;
      differing_.fix = remedy.fix;
      result_.findings.push_back(std::move(differing_));
    }
    if (!builds_.examples.empty()) {
      builds_.severity = Severity::kWarning;
      builds_.what = "packages of one version, but of other builds";
      builds_.why = report::AdviceText("config_check.other_build");
      result_.findings.push_back(std::move(builds_));
    }
    if (!one_side_.examples.empty()) {
      one_side_.severity = Severity::kNote;
      one_side_.what = "packages that only one side has; expected if the devices differ";
      result_.findings.push_back(std::move(one_side_));
    }
    if (!unseen_.examples.empty()) {
      unseen_.severity = Severity::kNote;
      unseen_.what = "packages whose name or version the sheet does not recognise";
      unseen_.fix = report::AdviceText("config_check.normalize_pip");
      result_.findings.push_back(std::move(unseen_));
    }
  }

  const Rules& rules_;
  const CheckOptions& options_;
  const Packages& bench_;
  const Packages& cmp_;
  CheckResult result_;
  bool compared_ = false;  // one side at least has a package that matters
  size_t differing_count_ = 0;
  Finding differing_;
  Finding builds_;
  Finding unseen_;
  Finding one_side_;
};

}  // namespace

Result<CheckResult> CheckPip(const PackPair& packs, const CheckOptions& options) {
  MSP_ASSIGN_OR_RETURN(const std::string bench_list, packs.bench.ReadText(kPipMember));
  MSP_ASSIGN_OR_RETURN(const std::string cmp_list, packs.cmp.ReadText(kPipMember));
  const Packages bench(bench_list);
  const Packages cmp(cmp_list);
  return PipCheck(BuiltInRules(), options, bench, cmp).Run();
}

}  // namespace msprobe::analysis::config_check
