#include "src/monitor/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/status.h"

#include "src/base/bounded_expression.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/json/config.h"
#include "src/json/writer.h"
#include "src/monitor/output_folder.h"

namespace msprobe::monitor {
namespace {

// The keys "recording_l2_features", "l2_targets" and "sa_order".

using json::ConfigKind;
using json::ConfigValue;

constexpr std::array<json::Choice<AttentionLayout>, 2> kLayouts = {
    {{"s,b,h,d", AttentionLayout::kSequenceFirst}, {"b,s,h,d", AttentionLayout::kBatchFirst}}};

const std::vector<std::string>& HookNames() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    names.reserve(kFeatureHookCount);
    for (const FeatureTable& table : kFeatureTables) {
      names.emplace_back(table.name);
    }
    return names;
  }();
  return kNames;
}

Status ReadTargets(const json::Config& config, const ConfigValue& value,
                   FeatureSettings& features) {
  if (value.kind != ConfigKind::kObject) {
    return config.ErrorAt(value, "l2_targets",
                          fmt::format("is {}; allowed: an object such as "
                                      "{{\"linear_hook\": [\"layers.0.mlp\"]}}",
                                      json::ShownValue(value)));
  }
  MSP_RETURN_IF_ERROR(config.CheckKeys(value, HookNames()), "key \"l2_targets\"");
  const json::SettingsReader reader(config, value, "l2_targets");
  for (size_t hook = 0; hook < kFeatureHookCount; ++hook) {
    const FeatureTable& table = kFeatureTables[hook];
    const ConfigValue* list = reader.Find(table.name);
    if (list == nullptr) {
      features.targets[hook].reset();
      continue;
    }
    std::vector<std::string> names;
    MSP_RETURN_IF_ERROR(reader.TextList(table.name, names));
    if (names.empty() && !table.takes_every_module) {
      return reader.Error(*list, table.name, "is empty; allowed: a list of names of modules");
    }
    features.targets[hook] = std::move(names);
  }
  return {};
}

// `warnings`: what means nothing, for the user's eyes.
Status ReadFeatures(const json::Config& config, FeatureSettings& features,
                    std::vector<std::string>& warnings) {
  const json::SettingsReader reader(config, config.root, "");
  MSP_RETURN_IF_ERROR(reader.Bool("recording_l2_features", features.is_recorded));
  MSP_RETURN_IF_ERROR(reader.Choose("sa_order", kLayouts, features.layout));
  if (const ConfigValue* targets = reader.Find("l2_targets")) {
    MSP_RETURN_IF_ERROR(ReadTargets(config, *targets, features));
  }
  const ConfigValue* const asked = reader.Find("recording_l2_features");
  const bool has_targets = std::any_of(features.targets.begin(), features.targets.end(),
                                       [](const auto& names) { return names.has_value(); });
  if (asked != nullptr && features.is_recorded && !has_targets) {
    warnings.push_back(config
                           .ErrorAt(*asked, "recording_l2_features",
                                    fmt::format("is true, but \"l2_targets\" names none of {}: "
                                                "no features are recorded",
                                                base::Join(HookNames(), ", ")))
                           .message());
  }
  return {};
}

void WriteFeatures(const FeatureSettings& features, json::Writer& json) {
  json.Member("recording_l2_features", features.is_recorded);
  json.Key("l2_targets");
  json.BeginObject();
  for (size_t hook = 0; hook < kFeatureHookCount; ++hook) {
    if (features.targets[hook]) {
      json.Member(kFeatureTables[hook].name, *features.targets[hook]);
    }
  }
  json.EndObject();
  json.Member("sa_order", NameOf(kLayouts, features.layout));
}

void PutOps(json::Writer& json, std::string_view key, const std::vector<Statistic>& ops) {
  json.Key(key);
  json.BeginArray();
  for (const Statistic op : ops) {
    json.Text(StatisticName(op));
  }
  json.EndArray();
}

void PutAlert(json::Writer& json, const AlertSettings& alert) {
  json.Key("alert");
  json.BeginObject();
  json.Key("rules");
  json.BeginArray();
  for (const AlertRule& rule : alert.rules) {
    json.BeginObject();
    json.Member("rule_name", NameOf(kRuleNames, rule.kind));
    if (rule.threshold) {
      json.Key("args");
      json.BeginObject();
      json.Member("threshold", *rule.threshold);
      if (!rule.ops.empty()) {
        PutOps(json, "ops", rule.ops);
      }
      json.EndObject();
    }
    json.EndObject();
  }
  json.EndArray();
  json.Member("dump", alert.dump);
  json.Member("compat", alert.compat);
  json.Member("warm_up_steps", alert.warm_up_steps);
  json.Member("min_history", int64_t{alert.min_history});
  json.Member("window", int64_t{alert.window});
  json.EndObject();
}

}  // namespace

const std::vector<std::string>& WantedStatistics() {
  static const std::vector<std::string> names = {
      "norm", "min",  "max",  "mean",       "zeros",         "nans",  "id",   "std",
      "rms",  "amax", "infs", "subnormals", "dynamic_range", "shape", "dtype"};
  return names;
}

std::optional<Statistic> FindWantedStatistic(std::string_view name) {
  const std::vector<std::string>& wanted = WantedStatistics();
  return std::find(wanted.begin(), wanted.end(), name) == wanted.end() ? std::nullopt
                                                                       : FindStatistic(name);
}

std::string SettingsJson(const Settings& settings) {
  std::string text;
  json::Writer json(text, -1);
  json.BeginObject();
  json.Key("targets");
  json.BeginObject();
  for (const std::string& target : settings.targets) {
    json.Key(target);
    json.BeginObject();
    json.EndObject();
  }
  json.EndObject();
  json.Member("all_xy", settings.all_xy);
  json.Member("xy_distribution", settings.xy_distribution);
  json.Member("forward_only", settings.forward_only);
  json.Member("backward_only", settings.backward_only);
  json.Member("wg_distribution", settings.wg_distribution);
  json.Member("monitor_mbs_grad", settings.monitor_mbs_grad);
  json.Member("mv_distribution", settings.mv_distribution);
  json.Member("param_distribution", settings.param_distribution);
  json.Member("ur_distribution", settings.ur_distribution);
  json.Member("mg_direction", settings.mg_direction);
  json.Key("cc_distribution");
  json.BeginObject();
  json.Member("enable", settings.cc.enable);
  json.Member("cc_codeline", settings.cc.code_lines);
  json.Member("cc_pre_hook", settings.cc.pre_hook);
  json.Member("cc_log_only", settings.cc.log_only);
  json.EndObject();
  json.Member("stack_info", settings.stack_info);
  json.Member("print_struct", settings.print_struct);
  json.Member("module_ranks", settings.module_ranks);
  PutOps(json, "ops", settings.ops);
  json.Member("eps", settings.eps);
  if (settings.significant_digits == 0) {  // named, it means decimals alone
    json.Member("ndigits", int64_t{settings.digits});
  }
  json.Member("format", NameOf(kFormats, settings.format));
  json.Member("start_step", settings.start_step);
  json.Member("step_interval", settings.step_interval);
  json.Member("collect_times", settings.collect_times);
  json.Member("step_count_per_record", settings.steps_per_file);
  json.Member("append_output", settings.append_output);
  json.Member("squash_name", settings.squash_name);
  PutAlert(json, settings.alert);
  json.Member("dynamic_on", settings.dynamic_on);
  WriteFeatures(settings.features, json);
  json.Member("steps", settings.steps);
  json.Member("squash_rules", NameOf(kSquashRules, settings.squash_rules));
  json.Member("compat", settings.compat);
  json.EndObject();
  return text;
}

namespace {

using json::Config;
using json::SettingsReader;
using json::ShownValue;

constexpr int64_t kMostDigits = 20;
constexpr int64_t kMostStepsPerFile = 1'000'000;
constexpr int64_t kMostTargets = 100'000;
constexpr int64_t kMostSteps = std::numeric_limits<int64_t>::max() / 4;

const std::vector<std::string>& TopLevelKeys() {
  static const std::vector<std::string> keys = {"targets",
                                                "all_xy",
                                                "xy_distribution",
                                                "forward_only",
                                                "backward_only",
                                                "wg_distribution",
                                                "monitor_mbs_grad",
                                                "mv_distribution",
                                                "param_distribution",
                                                "ur_distribution",
                                                "mg_direction",
                                                "cc_distribution",
                                                "stack_info",
                                                "print_struct",
                                                "module_ranks",
                                                "ops",
                                                "eps",
                                                "ndigits",
                                                "format",
                                                "start_step",
                                                "step_interval",
                                                "collect_times",
                                                "step_count_per_record",
                                                "append_output",
                                                "squash_name",
                                                "alert",
                                                "dynamic_on",
                                                "steps",
                                                "squash_rules",
                                                "compat",
                                                "recording_l2_features",
                                                "l2_targets",
                                                "sa_order"};
  return keys;
}

// The Python tool ignores unknown keys, so existing files may hold some.
void WarnOfUnknownKeys(const Config& config, const ConfigValue& object, std::string_view section,
                       const std::vector<std::string>& valid, std::vector<std::string>& warnings) {
  for (const auto& [key, value] : object.members) {
    if (std::find(valid.begin(), valid.end(), key) != valid.end()) {
      continue;
    }
    std::string text =
        fmt::format("{} line {}: key \"{}{}{}\" is unknown and has no effect", config.file,
                    value.line, section, section.empty() ? "" : ".", base::Printable(key));
    if (const auto nearest = base::NearestMatch(key, valid)) {
      text += fmt::format("; did you mean \"{}\"?", *nearest);
    }
    warnings.push_back(std::move(text));
  }
}

class Loader {
 public:
  Loader(const Config& config, Settings& settings)
      : config_(config), reader_(config, config.root, ""), settings_(settings) {}

  Status Load() {
    if (config_.root.kind != ConfigKind::kObject) {
      return config_.ErrorAt(
          config_.root, "",
          fmt::format("is {}; allowed: one object of keys", ShownValue(config_.root)));
    }
    WarnOfUnknownKeys(config_, config_.root, "", TopLevelKeys(), settings_.warnings);
    MSP_RETURN_IF_ERROR(ReadTargets());
    MSP_RETURN_IF_ERROR(ReadSwitches());
    MSP_RETURN_IF_ERROR(ReadCommunication());
    MSP_RETURN_IF_ERROR(ReadNumbers());
    MSP_RETURN_IF_ERROR(ReadOps());
    MSP_RETURN_IF_ERROR(ReadSteps());
    MSP_RETURN_IF_ERROR(ReadAppendOutput());
    MSP_RETURN_IF_ERROR(reader_.Choose("squash_rules", kSquashRules, settings_.squash_rules));
    ReadFormat();
    MSP_RETURN_IF_ERROR(ReadFeatures(config_, settings_.features, settings_.warnings));
    return ReadAlert();
  }

 private:
  void Warn(const ConfigValue& value, std::string_view key, std::string_view complaint) {
    settings_.warnings.push_back(config_.ErrorAt(value, key, complaint).message());
  }

  // Wrong values are reported and replaced by `fallback`.
  void CorrectedBool(std::string_view key, bool fallback, bool& out) {
    const ConfigValue* value = reader_.Find(key);
    if (value == nullptr) {
      return;
    }
    if (value->kind == ConfigKind::kBool) {
      out = value->boolean;
      return;
    }
    out = fallback;
    Warn(*value, key,
         fmt::format("is {}; allowed: true, false. Taken as {}", ShownValue(*value), fallback));
  }

  void CorrectedInt(std::string_view key, int64_t least, int64_t fallback, int64_t& out) {
    const ConfigValue* value = reader_.Find(key);
    if (value == nullptr) {
      return;
    }
    const bool is_whole_float = value->kind == ConfigKind::kFloat &&
                                value->number == std::trunc(value->number) &&
                                std::fabs(value->number) < 1e15;
    if (value->kind == ConfigKind::kInt || is_whole_float) {
      const int64_t number = is_whole_float ? static_cast<int64_t>(value->number) : value->integer;
      if (number >= least) {
        out = std::min(number, kMostSteps);
        return;
      }
    }
    out = fallback;
    Warn(*value, key,
         fmt::format("is {}; allowed: integers from {}. Taken as {}", ShownValue(*value), least,
                     fallback));
  }

  Status ReadTargets() {
    const ConfigValue* value = reader_.Find("targets");
    if (value == nullptr) {
      return {};
    }
    if (value->kind != ConfigKind::kObject) {
      return reader_.Error(
          *value, "targets",
          fmt::format("is {}; allowed: an object such as {{\"layers.0.mlp\": {{}}}}",
                      ShownValue(*value)));
    }
    if (value->members.size() > static_cast<size_t>(kMostTargets)) {
      return reader_.Error(*value, "targets", fmt::format("has more than {} names", kMostTargets));
    }
    settings_.targets.clear();
    for (const auto& [name, inner] : value->members) {
      if (inner.kind != ConfigKind::kObject) {
        return reader_.Error(
            inner, fmt::format("targets.{}", base::Printable(name)),
            fmt::format("is {}; allowed: an object, which may be empty", ShownValue(inner)));
      }
      settings_.targets.push_back(name);
    }
    return {};
  }

  Status ReadSwitches() {
    CorrectedBool("monitor_mbs_grad", false, settings_.monitor_mbs_grad);
    CorrectedBool("mv_distribution", false, settings_.mv_distribution);
    CorrectedBool("mg_direction", false, settings_.mg_direction);
    const std::array<std::pair<std::string_view, bool*>, 12> validated = {{
        {"all_xy", &settings_.all_xy},
        {"xy_distribution", &settings_.xy_distribution},
        {"forward_only", &settings_.forward_only},
        {"backward_only", &settings_.backward_only},
        {"wg_distribution", &settings_.wg_distribution},
        {"param_distribution", &settings_.param_distribution},
        {"ur_distribution", &settings_.ur_distribution},
        {"stack_info", &settings_.stack_info},
        {"print_struct", &settings_.print_struct},
        {"squash_name", &settings_.squash_name},
        {"dynamic_on", &settings_.dynamic_on},
        {"compat", &settings_.compat},
    }};
    for (const auto& [key, out] : validated) {
      MSP_RETURN_IF_ERROR(reader_.Bool(key, *out));
    }
    return {};
  }

  Status ReadCommunication() {
    static const std::vector<std::string> valid = {"enable", "cc_codeline", "cc_pre_hook",
                                                   "cc_log_only"};
    const ConfigValue* value = reader_.Find("cc_distribution");
    if (value == nullptr) {
      return {};
    }
    if (value->kind != ConfigKind::kObject) {
      return reader_.Error(*value, "cc_distribution",
                           fmt::format("is {}; allowed: an object of the keys {}",
                                       ShownValue(*value), base::Join(valid, ", ")));
    }
    MSP_RETURN_IF_ERROR(config_.CheckKeys(*value, valid), "key \"cc_distribution\"");
    const SettingsReader reader(config_, *value, "cc_distribution");
    CommunicationSettings cc;
    MSP_RETURN_IF_ERROR(reader.Bool("enable", cc.enable));
    MSP_RETURN_IF_ERROR(reader.Bool("cc_pre_hook", cc.pre_hook));
    MSP_RETURN_IF_ERROR(reader.Bool("cc_log_only", cc.log_only));
    MSP_RETURN_IF_ERROR(reader.TextList("cc_codeline", cc.code_lines));
    for (const std::string& line : cc.code_lines) {
      if (const auto expression = base::BoundedExpression::Parse(line); !expression.ok()) {
        return reader.Error(*reader.Find("cc_codeline"), "cc_codeline",
                            "has " + expression.status().message());
      }
    }
    settings_.cc = std::move(cc);
    return {};
  }

  Status ReadNumbers() {
    if (const ConfigValue* eps = reader_.Find("eps")) {
      if (eps->kind != ConfigKind::kFloat || !std::isfinite(eps->number)) {
        return reader_.Error(*eps, "eps",
                             fmt::format("is {}; allowed: a number with a decimal point or an "
                                         "exponent, such as 1e-8",
                                         ShownValue(*eps)));
      }
      settings_.eps = eps->number;
    }
    int64_t digits = settings_.digits;
    MSP_RETURN_IF_ERROR(reader_.Int("ndigits", 0, kMostDigits, digits));
    settings_.digits = static_cast<int32_t>(digits);
    settings_.significant_digits =
        reader_.Find("ndigits") != nullptr ? 0 : settings_.significant_digits;
    MSP_RETURN_IF_ERROR(
        reader_.Int("step_count_per_record", 1, kMostStepsPerFile, settings_.steps_per_file));
    const ConfigValue* ranks = reader_.Find("module_ranks");
    if (ranks == nullptr) {
      return {};
    }
    if (ranks->kind != ConfigKind::kList) {
      return reader_.Error(*ranks, "module_ranks",
                           fmt::format("is {}; allowed: a list of ranks", ShownValue(*ranks)));
    }
    settings_.module_ranks.clear();
    for (const ConfigValue& rank : ranks->items) {
      if (rank.kind != ConfigKind::kInt) {
        return reader_.Error(
            rank, "module_ranks",
            fmt::format("holds {}; allowed: a list of ranks, each an integer", ShownValue(rank)));
      }
      settings_.module_ranks.push_back(rank.integer);
    }
    std::sort(settings_.module_ranks.begin(), settings_.module_ranks.end());
    return {};
  }

  Status ReadOps() {
    const ConfigValue* value = reader_.Find("ops");
    if (value == nullptr) {
      return {};
    }
    if (value->kind != ConfigKind::kList) {
      return reader_.Error(*value, "ops",
                           fmt::format("is {}; allowed: a list out of {}", ShownValue(*value),
                                       base::Join(WantedStatistics(), ", ")));
    }
    settings_.ops = ReadOpList(*value, "ops");
    return {};
  }

  // Names that are not statistics are reported and left out.
  std::vector<Statistic> ReadOpList(const ConfigValue& list, std::string_view key) {
    std::vector<Statistic> ops;
    for (const ConfigValue& item : list.items) {
      const auto op =
          item.kind == ConfigKind::kText ? FindWantedStatistic(item.text) : std::nullopt;
      if (!op) {
        std::string text =
            fmt::format("holds {}, which is not a statistic and is ignored; allowed: {}",
                        ShownValue(item), base::Join(WantedStatistics(), ", "));
        if (const auto nearest = base::NearestMatch(item.text, WantedStatistics())) {
          text += fmt::format("; did you mean \"{}\"?", *nearest);
        }
        Warn(item, key, text);
      } else if (std::find(ops.begin(), ops.end(), *op) == ops.end()) {
        ops.push_back(*op);
      }
    }
    return ops;
  }

  Status ReadSteps() {
    CorrectedInt("start_step", 0, 0, settings_.start_step);
    CorrectedInt("step_interval", 1, 1, settings_.step_interval);
    CorrectedInt("collect_times", 0, Settings().collect_times, settings_.collect_times);
    return reader_.NumberSet("steps", settings_.steps);
  }

  Status ReadAppendOutput() {
    const ConfigValue* value = reader_.Find("append_output");
    if (value == nullptr) {
      return {};
    }
    constexpr std::string_view kRule =
        "allowed: an empty list, or the first and the last time stamp such as "
        "[\"Dec03_21-34-40\", \"Dec03_21-34-41\"]";
    std::vector<std::string> stamps;
    MSP_RETURN_IF_ERROR(reader_.TextList("append_output", stamps));
    if (!stamps.empty() && stamps.size() != 2) {
      return reader_.Error(*value, "append_output",
                           fmt::format("has {}; {}", base::Plural(stamps.size(), "item"), kRule));
    }
    for (const std::string& stamp : stamps) {
      if (!StampOrder(stamp)) {
        return reader_.Error(*value, "append_output",
                             fmt::format("holds \"{}\"; {}", base::Printable(stamp), kRule));
      }
    }
    if (stamps.size() == 2 && *StampOrder(stamps[0]) > *StampOrder(stamps[1])) {
      return reader_.Error(*value, "append_output", "begins after its end");
    }
    settings_.append_output = std::move(stamps);
    return {};
  }

  void ReadFormat() {
    const ConfigValue* value = reader_.Find("format");
    if (value == nullptr) {
      return;
    }
    for (const json::Choice<Format>& choice : kFormats) {
      if (value->kind == ConfigKind::kText && value->text == choice.name) {
        settings_.format = choice.value;
        return;
      }
    }
    settings_.format = Format::kCsv;
    Warn(*value, "format",
         fmt::format("is {}; allowed: csv, tensorboard, sqlite, api. Taken as csv",
                     ShownValue(*value)));
  }

  Status ReadAlert() {
    const ConfigValue* value = reader_.Find("alert");
    if (value == nullptr) {
      return {};
    }
    if (value->kind != ConfigKind::kObject) {
      return reader_.Error(
          *value, "alert",
          fmt::format("is {}; allowed: an object such as {{\"rules\": []}}", ShownValue(*value)));
    }
    static const std::vector<std::string> valid = {"rules",         "dump",        "compat",
                                                   "warm_up_steps", "min_history", "window"};
    WarnOfUnknownKeys(config_, *value, "alert", valid, settings_.warnings);
    const SettingsReader reader(config_, *value, "alert");
    AlertSettings alert;
    alert.compat = settings_.compat;
    MSP_RETURN_IF_ERROR(reader.Bool("dump", alert.dump));
    MSP_RETURN_IF_ERROR(reader.Bool("compat", alert.compat));
    MSP_RETURN_IF_ERROR(reader.Int("warm_up_steps", 0, kMostSteps, alert.warm_up_steps));
    int64_t min_history = alert.min_history;
    int64_t window = alert.window;
    MSP_RETURN_IF_ERROR(reader.Int("min_history", 1, 10'000, min_history));
    MSP_RETURN_IF_ERROR(reader.Int("window", 2, 10'000, window));
    if (min_history > window) {
      return reader.Error(
          *value, "min_history",
          fmt::format("is {}, more than the {} values that \"window\" keeps", min_history, window));
    }
    alert.min_history = static_cast<int32_t>(min_history);
    alert.window = static_cast<int32_t>(window);
    MSP_RETURN_IF_ERROR(ReadRules(reader, alert.rules));
    settings_.alert = std::move(alert);
    return {};
  }

  Status ReadRules(const SettingsReader& reader, std::vector<AlertRule>& rules) {
    const ConfigValue* list = reader.Find("rules");
    if (list == nullptr) {
      return {};
    }
    if (list->kind != ConfigKind::kList) {
      return reader.Error(*list, "rules",
                          fmt::format("is {}; allowed: a list of rules", ShownValue(*list)));
    }
    for (size_t i = 0; i < list->items.size(); ++i) {
      AlertRule rule;
      MSP_RETURN_IF_ERROR(ReadRule(list->items[i], fmt::format("alert.rules[{}]", i), rule));
      rules.push_back(std::move(rule));
    }
    return {};
  }

  Status ReadRule(const ConfigValue& value, const std::string& path, AlertRule& rule) {
    if (value.kind != ConfigKind::kObject) {
      return config_.ErrorAt(
          value, path,
          fmt::format("is {}; allowed: {{\"rule_name\": ..., \"args\": {{\"threshold\": ...}}}}",
                      ShownValue(value)));
    }
    const SettingsReader reader(config_, value, path);
    if (reader.Find("rule_name") == nullptr) {
      return config_.ErrorAt(value, path + ".rule_name",
                             "is missing; allowed: AnomalyTurbulence, AnomalyNan");
    }
    MSP_RETURN_IF_ERROR(reader.Choose("rule_name", kRuleNames, rule.kind));
    const ConfigValue* args = reader.Find("args");
    if (args == nullptr) {
      return rule.kind == AlertRule::Kind::kTurbulence
                 ? config_.ErrorAt(value, path + ".args",
                                   "is missing; AnomalyTurbulence needs {\"threshold\": ...}")
                 : Status();
    }
    if (args->kind != ConfigKind::kObject) {
      return config_.ErrorAt(
          *args, path + ".args",
          fmt::format("is {}; allowed: {{\"threshold\": ...}}", ShownValue(*args)));
    }
    const ConfigValue* threshold = args->Find("threshold");
    const bool is_number = threshold != nullptr && (threshold->kind == ConfigKind::kInt ||
                                                    threshold->kind == ConfigKind::kFloat);
    if (!is_number || !(threshold->number >= 0) || !std::isfinite(threshold->number)) {
      return config_.ErrorAt(
          threshold != nullptr ? *threshold : *args, path + ".args.threshold",
          fmt::format("is {}; allowed: a number from 0",
                      threshold != nullptr ? ShownValue(*threshold) : "missing"));
    }
    rule.threshold = threshold->number;
    if (const ConfigValue* ops = args->Find("ops"); ops != nullptr) {
      if (ops->kind != ConfigKind::kList) {
        return config_.ErrorAt(
            *ops, path + ".args.ops",
            fmt::format("is {}; allowed: a list of statistics", ShownValue(*ops)));
      }
      rule.ops = ReadOpList(*ops, path + ".args.ops");
    }
    return {};
  }

  const Config& config_;
  const SettingsReader reader_;
  Settings& settings_;
};

// Defaults that hang on other keys.
void Complete(Settings& settings) {
  if (settings.targets.empty()) {
    settings.targets.emplace_back();
    settings.all_xy = settings.all_xy || settings.xy_distribution || settings.stack_info;
  }
  const auto is_text = [](Statistic op) {
    return op == Statistic::kShape || op == Statistic::kDType;
  };
  if (std::all_of(settings.ops.begin(), settings.ops.end(), is_text)) {
    settings.ops.insert(settings.ops.begin(), Statistic::kNorm);
  }
  for (const Statistic op : {Statistic::kShape, Statistic::kDType}) {
    if (std::find(settings.ops.begin(), settings.ops.end(), op) == settings.ops.end()) {
      settings.ops.push_back(op);
    }
  }
  if (settings.forward_only && settings.backward_only) {
    settings.warnings.emplace_back(
        "forward_only and backward_only are both true: no inputs and outputs are recorded");
  }
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody of ours sets any
  return value == nullptr ? std::string() : value;
}

}  // namespace

Result<Settings> LoadSettings(const std::filesystem::path& config_path,
                              std::string_view overrides_json) {
  Settings settings;
  if (!config_path.empty()) {
    MSP_ASSIGN_OR_RETURN(const Config file, json::LoadJsonConfig(config_path));
    MSP_RETURN_IF_ERROR(Loader(file, settings).Load());
  }
  if (!overrides_json.empty()) {
    MSP_ASSIGN_OR_RETURN(const Config overrides,
                         json::ParseJsonConfig(overrides_json, "the arguments"));
    MSP_RETURN_IF_ERROR(Loader(overrides, settings).Load());
  }
  Complete(settings);
  return settings;
}

std::filesystem::path OutputRoot() {
  const std::string given = Environment("MONITOR_OUTPUT_DIR");
  const std::filesystem::path root = given.empty() ? "./monitor_output" : given;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(root, error);
  return base::WithoutLastSlash(error ? root : absolute.lexically_normal());
}

bool IsDynamic() { return base::EqualsIgnoringCase(Environment("DYNAMIC_MONITOR"), "true"); }

}  // namespace msprobe::monitor
