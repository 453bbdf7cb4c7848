// The settings of a monitor: a row per key (Rows, and those of the objects "cc_distribution" and
// "alert") says how it is read and written. Some wrong values are errors; where the Python tool
// corrects them, they are corrected with a warning. Complete fills in what depends on several keys.
#include "src/monitor/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/status.h"

#include "src/base/bounded_expression.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/json/config.h"
#include "src/json/settings_table.h"
#include "src/json/writer.h"
#include "src/monitor/output_folder.h"

namespace msprobe::monitor {
namespace {

using json::Config;
using json::Json;
using json::SettingsReader;
using json::ShownValue;

using KeyRow = json::SettingsRow<Settings>;

constexpr int64_t kMostDigits = 20;
constexpr int64_t kMostStepsPerFile = 1'000'000;
constexpr int64_t kMostTargets = 100'000;
constexpr int64_t kMostSteps = std::numeric_limits<int64_t>::max() / 4;

constexpr std::array<json::Choice<Format>, 4> kFormats = {{{"csv", Format::kCsv},
                                                           {"tensorboard", Format::kTensorBoard},
                                                           {"sqlite", Format::kSqlite},
                                                           {"api", Format::kApi}}};
constexpr std::array<json::Choice<SquashRules>, 2> kSquashRules = {
    {{"first", SquashRules::kFirst}, {"anchored", SquashRules::kAnchored}}};
constexpr std::array<json::Choice<AlertRule::Kind>, 2> kRuleNames = {
    {{"AnomalyTurbulence", AlertRule::Kind::kTurbulence}, {"AnomalyNan", AlertRule::Kind::kNan}}};
constexpr std::array<json::Choice<AttentionLayout>, 2> kLayouts = {
    {{"s,b,h,d", AttentionLayout::kSequenceFirst}, {"b,s,h,d", AttentionLayout::kBatchFirst}}};

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

namespace {

// The Python tool ignores unknown keys, so existing files may hold some.
void WarnOfUnknownKeys(const Config& config, const Json& object, std::string_view section,
                       const std::vector<std::string>& valid, std::vector<std::string>& warnings) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(valid.begin(), valid.end(), key) != valid.end()) {
      continue;
    }
    std::string text = fmt::format("{} line {}: key \"{}{}{}\" is unknown and has no effect",
                                   config.file, config.LineOf(value), section,
                                   section.empty() ? "" : ".", base::Printable(key));
    if (const auto nearest = base::NearestMatch(key, valid)) {
      text += fmt::format("; did you mean \"{}\"?", *nearest);
    }
    warnings.push_back(std::move(text));
  }
}

void Warn(const SettingsReader& reader, const Json& value, std::string_view key,
          std::string_view complaint, Settings& settings) {
  settings.warnings.push_back(reader.Error(value, key, complaint).message());
}

// Wrong values are reported and replaced by false.
json::SettingsKind<Settings> CorrectedSwitch(bool Settings::*member) {
  return {[member](const SettingsReader& reader, std::string_view key, Settings& settings) {
            const Json* const value = reader.Find(key);
            if (value != nullptr) {
              const bool is_right = value->is_boolean();
              settings.*member = is_right && json::BoolOf(*value);
              if (!is_right) {
                Warn(reader, *value, key,
                     fmt::format("is {}; allowed: true, false. Taken as false", ShownValue(*value)),
                     settings);
              }
            }
            return Status();
          },
          json::WriteFrom<Settings>(member)};
}

// Wrong values are reported and replaced by `fallback`.
json::SettingsKind<Settings> CorrectedNumber(int64_t Settings::*member, int64_t least,
                                             int64_t fallback) {
  return {[=](const SettingsReader& reader, std::string_view key, Settings& settings) -> Status {
            const Json* const value = reader.Find(key);
            if (value == nullptr) {
              return {};
            }
            const bool is_whole_float =
                value->is_number_float() &&
                json::NumberOf(*value) == std::trunc(json::NumberOf(*value)) &&
                std::fabs(json::NumberOf(*value)) < 1e15;
            const int64_t number =
                is_whole_float ? static_cast<int64_t>(json::NumberOf(*value)) : json::IntOf(*value);
            if ((value->is_number_integer() || is_whole_float) && number >= least) {
              settings.*member = std::min(number, kMostSteps);
              return {};
            }
            settings.*member = fallback;
            Warn(reader, *value, key,
                 fmt::format("is {}; allowed: integers from {}. Taken as {}", ShownValue(*value),
                             least, fallback),
                 settings);
            return {};
          },
          json::WriteFrom<Settings>(member)};
}

Status ReadTargets(const SettingsReader& reader, std::string_view key, Settings& settings) {
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_object()) {
    return reader.Error(*value, key,
                        fmt::format("is {}; allowed: an object such as {{\"layers.0.mlp\": {{}}}}",
                                    ShownValue(*value)));
  }
  if (value->size() > static_cast<size_t>(kMostTargets)) {
    return reader.Error(*value, key, fmt::format("has more than {} names", kMostTargets));
  }
  settings.targets.clear();
  for (const auto& [name, inner] : value->items()) {
    if (!inner.is_object()) {
      return reader.Error(
          inner, fmt::format("{}.{}", key, base::Printable(name)),
          fmt::format("is {}; allowed: an object, which may be empty", ShownValue(inner)));
    }
    settings.targets.push_back(name);
  }
  return {};
}

void WriteTargets(const Settings& settings, std::string_view key, json::Writer& json) {
  json.Key(key);
  json.BeginObject();
  for (const std::string& target : settings.targets) {
    json.Key(target);
    json.BeginObject();
    json.EndObject();
  }
  json.EndObject();
}

Status ReadCodeLines(const SettingsReader& reader, std::string_view key,
                     CommunicationSettings& cc) {
  MSP_RETURN_IF_ERROR(reader.TextList(key, cc.code_lines));
  for (const std::string& line : cc.code_lines) {
    if (const auto expression = base::BoundedExpression::Parse(line); !expression.ok()) {
      return reader.Error(*reader.Find(key), key, "has " + expression.status().message());
    }
  }
  return {};
}

const std::vector<json::SettingsRow<CommunicationSettings>>& CommunicationRows() {
  using Communication = CommunicationSettings;
  static const std::vector<json::SettingsRow<Communication>> kRows = {
      {"enable", json::Switch(&Communication::enable)},
      {"cc_codeline", {ReadCodeLines, json::WriteFrom<Communication>(&Communication::code_lines)}},
      {"cc_pre_hook", json::Switch(&Communication::pre_hook)},
      {"cc_log_only", json::Switch(&Communication::log_only)}};
  return kRows;
}

Status ReadCommunication(const SettingsReader& top, std::string_view key, Settings& settings) {
  const Json* value = top.Find(key);
  if (value == nullptr) {
    return {};
  }
  const std::vector<std::string> valid = json::KeyNames(CommunicationRows());
  if (!value->is_object()) {
    return top.Error(*value, key,
                     fmt::format("is {}; allowed: an object of the keys {}", ShownValue(*value),
                                 base::Join(valid, ", ")));
  }
  MSP_RETURN_IF_ERROR(top.config().CheckKeys(*value, valid), fmt::format("key \"{}\"", key));
  settings.cc = {};
  return json::ReadRows(CommunicationRows(), SettingsReader(top.config(), *value, key),
                        settings.cc);
}

void WriteCommunication(const Settings& settings, std::string_view key, json::Writer& json) {
  json.Key(key);
  json.BeginObject();
  json::WriteRows(CommunicationRows(), settings.cc, json);
  json.EndObject();
}

Status ReadModuleRanks(const SettingsReader& reader, std::string_view key, Settings& settings) {
  const Json* ranks = reader.Find(key);
  if (ranks == nullptr) {
    return {};
  }
  if (!ranks->is_array()) {
    return reader.Error(*ranks, key,
                        fmt::format("is {}; allowed: a list of ranks", ShownValue(*ranks)));
  }
  settings.module_ranks.clear();
  for (const Json& rank : *ranks) {
    if (!rank.is_number_integer()) {
      return reader.Error(
          rank, key,
          fmt::format("holds {}; allowed: a list of ranks, each an integer", ShownValue(rank)));
    }
    settings.module_ranks.push_back(json::IntOf(rank));
  }
  std::sort(settings.module_ranks.begin(), settings.module_ranks.end());
  return {};
}

// Names that are not statistics are reported and left out.
std::vector<Statistic> ReadOpList(const SettingsReader& reader, const Json& list,
                                  std::string_view key, Settings& settings) {
  std::vector<Statistic> ops;
  for (const Json& item : list) {
    const auto op = item.is_string() ? FindWantedStatistic(json::TextOf(item)) : std::nullopt;
    if (!op) {
      std::string text =
          fmt::format("holds {}, which is not a statistic and is ignored; allowed: {}",
                      ShownValue(item), base::Join(WantedStatistics(), ", "));
      if (const auto nearest = base::NearestMatch(json::TextOf(item), WantedStatistics())) {
        text += fmt::format("; did you mean \"{}\"?", *nearest);
      }
      Warn(reader, item, key, text, settings);
    } else if (std::find(ops.begin(), ops.end(), *op) == ops.end()) {
      ops.push_back(*op);
    }
  }
  return ops;
}

void PutOps(json::Writer& json, std::string_view key, const std::vector<Statistic>& ops) {
  json.Key(key);
  json.BeginArray();
  for (const Statistic op : ops) {
    json.Text(StatisticName(op));
  }
  json.EndArray();
}

Status ReadOps(const SettingsReader& reader, std::string_view key, Settings& settings) {
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_array()) {
    return reader.Error(*value, key,
                        fmt::format("is {}; allowed: a list out of {}", ShownValue(*value),
                                    base::Join(WantedStatistics(), ", ")));
  }
  settings.ops = ReadOpList(reader, *value, key, settings);
  return {};
}

void WriteOps(const Settings& settings, std::string_view key, json::Writer& json) {
  PutOps(json, key, settings.ops);
}

Status ReadEps(const SettingsReader& reader, std::string_view key, double& eps) {
  const Json* const value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_number_float() || !std::isfinite(json::NumberOf(*value))) {
    return reader.Error(*value, key,
                        fmt::format("is {}; allowed: a number with a decimal point or an "
                                    "exponent, such as 1e-8",
                                    ShownValue(*value)));
  }
  eps = json::NumberOf(*value);
  return {};
}

Status ReadDigits(const SettingsReader& reader, std::string_view key, Settings& settings) {
  int64_t digits = settings.digits;
  MSP_RETURN_IF_ERROR(reader.Int(key, 0, kMostDigits, digits));
  settings.digits = static_cast<int32_t>(digits);
  settings.significant_digits = reader.Find(key) != nullptr ? 0 : settings.significant_digits;
  return {};
}

Status ReadFormat(const SettingsReader& reader, std::string_view key, Settings& settings) {
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  for (const json::Choice<Format>& choice : kFormats) {
    if (value->is_string() && json::TextOf(*value) == choice.name) {
      settings.format = choice.value;
      return {};
    }
  }
  settings.format = Format::kCsv;
  Warn(reader, *value, key,
       fmt::format("is {}; allowed: csv, tensorboard, sqlite, api. Taken as csv",
                   ShownValue(*value)),
       settings);
  return {};
}

Status ReadAppendOutput(const SettingsReader& reader, std::string_view key, Settings& settings) {
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  constexpr std::string_view kRule =
      "allowed: an empty list, or the first and the last time stamp such as "
      "[\"Dec03_21-34-40\", \"Dec03_21-34-41\"]";
  std::vector<std::string> stamps;
  MSP_RETURN_IF_ERROR(reader.TextList(key, stamps));
  if (!stamps.empty() && stamps.size() != 2) {
    return reader.Error(*value, key,
                        fmt::format("has {}; {}", base::Plural(stamps.size(), "item"), kRule));
  }
  for (const std::string& stamp : stamps) {
    if (!StampOrder(stamp)) {
      return reader.Error(*value, key,
                          fmt::format("holds \"{}\"; {}", base::Printable(stamp), kRule));
    }
  }
  if (stamps.size() == 2 && *StampOrder(stamps[0]) > *StampOrder(stamps[1])) {
    return reader.Error(*value, key, "begins after its end");
  }
  settings.append_output = std::move(stamps);
  return {};
}

Status ReadRule(const SettingsReader& top, const Json& value, const std::string& path,
                AlertRule& rule, Settings& settings) {
  if (!value.is_object()) {
    return top.Error(
        value, path,
        fmt::format("is {}; allowed: {{\"rule_name\": ..., \"args\": {{\"threshold\": ...}}}}",
                    ShownValue(value)));
  }
  const SettingsReader reader(top.config(), value, path);
  if (reader.Find("rule_name") == nullptr) {
    return top.Error(value, path + ".rule_name",
                     "is missing; allowed: AnomalyTurbulence, AnomalyNan");
  }
  MSP_RETURN_IF_ERROR(reader.Choose("rule_name", kRuleNames, rule.kind));
  const Json* args = reader.Find("args");
  if (args == nullptr) {
    return rule.kind == AlertRule::Kind::kTurbulence
               ? top.Error(value, path + ".args",
                           "is missing; AnomalyTurbulence needs {\"threshold\": ...}")
               : Status();
  }
  if (!args->is_object()) {
    return top.Error(*args, path + ".args",
                     fmt::format("is {}; allowed: {{\"threshold\": ...}}", ShownValue(*args)));
  }
  const Json* threshold = json::Find(*args, "threshold");
  const bool is_number =
      threshold != nullptr && (threshold->is_number_integer() || threshold->is_number_float());
  if (!is_number || !(json::NumberOf(*threshold) >= 0) ||
      !std::isfinite(json::NumberOf(*threshold))) {
    return top.Error(threshold != nullptr ? *threshold : *args, path + ".args.threshold",
                     fmt::format("is {}; allowed: a number from 0",
                                 threshold != nullptr ? ShownValue(*threshold) : "missing"));
  }
  rule.threshold = json::NumberOf(*threshold);
  if (const Json* ops = json::Find(*args, "ops"); ops != nullptr) {
    if (!ops->is_array()) {
      return top.Error(*ops, path + ".args.ops",
                       fmt::format("is {}; allowed: a list of statistics", ShownValue(*ops)));
    }
    rule.ops = ReadOpList(top, *ops, path + ".args.ops", settings);
  }
  return {};
}

Status ReadRules(const SettingsReader& top, const SettingsReader& reader,
                 std::vector<AlertRule>& rules, Settings& settings) {
  const Json* list = reader.Find("rules");
  if (list == nullptr) {
    return {};
  }
  if (!list->is_array()) {
    return reader.Error(*list, "rules",
                        fmt::format("is {}; allowed: a list of rules", ShownValue(*list)));
  }
  for (size_t i = 0; i < list->size(); ++i) {
    AlertRule rule;
    MSP_RETURN_IF_ERROR(
        ReadRule(top, (*list)[i], fmt::format("alert.rules[{}]", i), rule, settings));
    rules.push_back(std::move(rule));
  }
  return {};
}

void WriteRules(const AlertSettings& alert, std::string_view key, json::Writer& json) {
  json.Key(key);
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
}

const std::vector<json::SettingsRow<AlertSettings>>& AlertRows() {
  using Alert = AlertSettings;
  static const std::vector<json::SettingsRow<Alert>> kRows = {
      {"rules", {nullptr, WriteRules}},  // read by ReadAlert, as they may lead to warnings
      {"dump", json::Switch(&Alert::dump)},
      {"compat", json::Switch(&Alert::compat)},
      {"warm_up_steps", json::Number(&Alert::warm_up_steps, 0, kMostSteps)},
      {"min_history", json::Number(&Alert::min_history, 1, 10'000)},
      {"window", json::Number(&Alert::window, 2, 10'000)}};
  return kRows;
}

Status ReadAlert(const SettingsReader& top, std::string_view key, Settings& settings) {
  const Json* value = top.Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_object()) {
    return top.Error(
        *value, key,
        fmt::format("is {}; allowed: an object such as {{\"rules\": []}}", ShownValue(*value)));
  }
  WarnOfUnknownKeys(top.config(), *value, key, json::KeyNames(AlertRows()), settings.warnings);
  const SettingsReader reader(top.config(), *value, key);
  AlertSettings alert;
  alert.compat = settings.compat;
  MSP_RETURN_IF_ERROR(json::ReadRows(AlertRows(), reader, alert));
  if (alert.min_history > alert.window) {
    return reader.Error(*value, "min_history",
                        fmt::format("is {}, more than the {} values that \"window\" keeps",
                                    alert.min_history, alert.window));
  }
  MSP_RETURN_IF_ERROR(ReadRules(top, reader, alert.rules, settings));
  settings.alert = std::move(alert);
  return {};
}

void WriteAlert(const Settings& settings, std::string_view key, json::Writer& json) {
  json.Key(key);
  json.BeginObject();
  json::WriteRows(AlertRows(), settings.alert, json);
  json.EndObject();
}

// "all", one name, or a list of names. Replay costs steps and is asked for by its own key.
Status ReadLaws(const SettingsReader& reader, std::string_view key, Settings& settings) {
  const Json* const value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  std::vector<std::string> asked;
  if (value->is_string()) {
    asked.push_back(json::TextOf(*value));
  } else {
    MSP_RETURN_IF_ERROR(reader.TextList(key, asked));
  }
  const std::vector<std::string> known(kLawNames.begin(), kLawNames.end());
  const auto has = [&asked](std::string_view name) {
    return std::find(asked.begin(), asked.end(), name) != asked.end();
  };
  for (const std::string& name : asked) {
    if (name == "all" || std::find(known.begin(), known.end(), name) != known.end()) {
      continue;
    }
    std::string text =
        fmt::format("is {}; allowed: all, {}", base::Printable(name), base::Join(known, ", "));
    if (const auto nearest = base::NearestMatch(name, known)) {
      text += fmt::format("; did you mean \"{}\"?", *nearest);
    }
    return reader.Error(*value, key, text);
  }
  settings.laws.clear();
  std::copy_if(known.begin(), known.end(), std::back_inserter(settings.laws),
               [&](const std::string& name) { return has("all") || has(name); });
  return {};
}

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

Status ReadFeatureTargets(const SettingsReader& top, std::string_view key, Settings& settings) {
  const Json* const object = top.Find(key);
  if (object == nullptr) {
    return {};
  }
  const Config& config = top.config();
  const Json& value = *object;
  if (!value.is_object()) {
    return top.Error(value, key,
                     fmt::format("is {}; allowed: an object such as "
                                 "{{\"linear_hook\": [\"layers.0.mlp\"]}}",
                                 ShownValue(value)));
  }
  MSP_RETURN_IF_ERROR(config.CheckKeys(value, HookNames()), fmt::format("key \"{}\"", key));
  const SettingsReader reader(config, value, key);
  for (size_t hook = 0; hook < kFeatureHookCount; ++hook) {
    const FeatureTable& table = kFeatureTables[hook];
    const Json* list = reader.Find(table.name);
    if (list == nullptr) {
      settings.features.targets[hook].reset();
      continue;
    }
    std::vector<std::string> names;
    MSP_RETURN_IF_ERROR(reader.TextList(table.name, names));
    if (names.empty() && !table.takes_every_module) {
      return reader.Error(*list, table.name, "is empty; allowed: a list of names of modules");
    }
    settings.features.targets[hook] = std::move(names);
  }
  return {};
}

void WriteFeatureTargets(const Settings& settings, std::string_view key, json::Writer& json) {
  json.Key(key);
  json.BeginObject();
  for (size_t hook = 0; hook < kFeatureHookCount; ++hook) {
    if (settings.features.targets[hook]) {
      json.Member(kFeatureTables[hook].name, *settings.features.targets[hook]);
    }
  }
  json.EndObject();
}

const std::vector<KeyRow>& Rows() {
  static const std::vector<KeyRow> kRows = {
      {"targets", {ReadTargets, WriteTargets}},
      {"all_xy", json::Switch(&Settings::all_xy)},
      {"xy_distribution", json::Switch(&Settings::xy_distribution)},
      {"forward_only", json::Switch(&Settings::forward_only)},
      {"backward_only", json::Switch(&Settings::backward_only)},
      {"wg_distribution", json::Switch(&Settings::wg_distribution)},
      {"monitor_mbs_grad", CorrectedSwitch(&Settings::monitor_mbs_grad)},
      {"mv_distribution", CorrectedSwitch(&Settings::mv_distribution)},
      {"param_distribution", json::Switch(&Settings::param_distribution)},
      {"ur_distribution", json::Switch(&Settings::ur_distribution)},
      {"mg_direction", CorrectedSwitch(&Settings::mg_direction)},
      {"cc_distribution", {ReadCommunication, WriteCommunication}},
      {"stack_info", json::Switch(&Settings::stack_info)},
      {"print_struct", json::Switch(&Settings::print_struct)},
      {"module_ranks", {ReadModuleRanks, json::WriteFrom<Settings>(&Settings::module_ranks)}},
      {"ops", {ReadOps, WriteOps}},
      {"eps", json::KindFor(&Settings::eps, ReadEps)},
      {"ndigits",
       {ReadDigits, json::WriteFrom<Settings>(&Settings::digits)},
       nullptr,  // named, it means decimals alone
       [](const Settings& settings) { return settings.significant_digits == 0; }},
      {"format", {ReadFormat, json::OneOf(&Settings::format, kFormats).write}},
      {"start_step", CorrectedNumber(&Settings::start_step, 0, 0)},
      {"step_interval", CorrectedNumber(&Settings::step_interval, 1, 1)},
      {"collect_times", CorrectedNumber(&Settings::collect_times, 0, Settings().collect_times)},
      {"step_count_per_record", json::Number(&Settings::steps_per_file, 1, kMostStepsPerFile)},
      {"append_output", {ReadAppendOutput, json::WriteFrom<Settings>(&Settings::append_output)}},
      {"squash_name", json::Switch(&Settings::squash_name)},
      {"alert", {nullptr, WriteAlert}},  // read last: its "compat" is that of the file if not given
      {"dynamic_on", json::Switch(&Settings::dynamic_on)},
      {"recording_l2_features", json::Switch<Settings>([](auto& settings) -> auto& {
         return settings.features.is_recorded;
       })},
      {"l2_targets", {ReadFeatureTargets, WriteFeatureTargets}},
      {"sa_order", json::OneOf<Settings>(
                       [](auto& settings) -> auto& { return settings.features.layout; }, kLayouts)},
      {"laws", {ReadLaws, json::WriteFrom<Settings>(&Settings::laws)}},
      {"laws_except",
       {[](const SettingsReader& reader, std::string_view key, Settings& settings) {
          return reader.TextList(key, settings.laws_except);
        },
        json::WriteFrom<Settings>(&Settings::laws_except)}},
      {"replay_steps", CorrectedNumber(&Settings::replay_steps, 0, 0)},
      {"exchange", json::Switch(&Settings::exchange)},
      {"steps", json::NumberSet(&Settings::steps)},
      {"squash_rules", json::OneOf(&Settings::squash_rules, kSquashRules)},
      {"compat", json::Switch(&Settings::compat)}};
  return kRows;
}

Status Load(const Config& config, Settings& settings) {
  const SettingsReader reader(config, config.root(), "");
  if (!config.root().is_object()) {
    return config.ErrorAt(
        config.root(), "",
        fmt::format("is {}; allowed: one object of keys", ShownValue(config.root())));
  }
  WarnOfUnknownKeys(config, config.root(), "", json::KeyNames(Rows()), settings.warnings);
  MSP_RETURN_IF_ERROR(json::ReadRows(Rows(), reader, settings));
  constexpr std::string_view kRecordFeatures = "recording_l2_features";
  const Json* const asked = reader.Find(kRecordFeatures);
  const FeatureSettings& features = settings.features;
  const bool has_targets = std::any_of(features.targets.begin(), features.targets.end(),
                                       [](const auto& names) { return names.has_value(); });
  if (asked != nullptr && features.is_recorded && !has_targets) {
    Warn(reader, *asked, kRecordFeatures,
         fmt::format("is true, but \"l2_targets\" names none of {}: no features are recorded",
                     base::Join(HookNames(), ", ")),
         settings);
  }
  return ReadAlert(reader, "alert", settings);
}

// Defaults that depend on other keys.
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
  const char* value =
      std::getenv(name);  // NOLINT(concurrency-mt-unsafe): the program sets no variables
  return value == nullptr ? std::string() : value;
}

}  // namespace

std::string SettingsJson(const Settings& settings, int indent) {
  return json::RowsJson(Rows(), settings, indent);
}

Settings SettingsToStartWith() {
  Settings settings;
  settings.xy_distribution = true;
  settings.wg_distribution = true;
  settings.mv_distribution = true;
  settings.param_distribution = true;
  settings.ops = {Statistic::kNorm, Statistic::kMin, Statistic::kMax, Statistic::kMean,
                  Statistic::kNans};
  settings.steps_per_file = 100;  // to make files is most of the cost of writing
  settings.alert.rules.push_back(
      {.kind = AlertRule::Kind::kNan, .threshold = std::nullopt, .ops = {}});
  settings.alert.dump = true;
  return settings;
}

Result<Settings> LoadSettings(const std::filesystem::path& config_path,
                              std::string_view overrides_json) {
  Settings settings;
  if (!config_path.empty()) {
    MSP_ASSIGN_OR_RETURN(const Config file, json::LoadJsonConfig(config_path));
    MSP_RETURN_IF_ERROR(Load(file, settings));
  }
  if (!overrides_json.empty()) {
    MSP_ASSIGN_OR_RETURN(const Config overrides,
                         json::ParseJsonConfig(overrides_json, "the arguments"));
    MSP_RETURN_IF_ERROR(Load(overrides, settings));
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
