#include <algorithm>
#include <string>
#include <vector>

#include "src/json/writer.h"
#include "src/monitor/settings.h"
#include "src/monitor/settings_features.h"
#include "src/monitor/settings_names.h"

namespace msprobe::monitor {
namespace {

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

}  // namespace msprobe::monitor
