// Judges the rows of each step against what came before them: the alerts of the configuration, and
// anomaly.json, into which they go. Used by the writer thread alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/json/writer.h"
#include "src/monitor/batch.h"

namespace msprobe::monitor {

// One entry of anomaly.json.

struct Anomaly {
  std::string key;
  int64_t rank = 0;
  int64_t step = 0;
  int64_t micro_step = 0;
  int64_t pp_stage = 0;
  int64_t vpp_stage = 0;
  int64_t call_id = 0;
  std::string tag_name;
  std::string message;
  std::vector<int64_t> group_mates;
};

// For parts of a shared run (base/packed.h).
template <typename Archive>
void PackMembers(Archive& archive, Anomaly& anomaly) {
  archive(anomaly.key, anomaly.rank, anomaly.step, anomaly.micro_step, anomaly.pp_stage,
          anomaly.vpp_stage, anomaly.call_id, anomaly.tag_name, anomaly.message,
          anomaly.group_mates);
}

// `"key": {...}` as the Python tool writes it.
void WriteAnomaly(const Anomaly& anomaly, json::Writer& json);

// Anomaly.json of one rank, a whole JSON object after every step, without ever
// being read again.

class AnomalyFileWriter {
 public:
  AnomalyFileWriter() = default;
  AnomalyFileWriter(const AnomalyFileWriter&) = delete;
  AnomalyFileWriter& operator=(const AnomalyFileWriter&) = delete;
  ~AnomalyFileWriter();

  // Makes the folder and an empty object. `replaced`: there was a file before. An error when
  // another process writes it, or when it is a link, no regular file or another user's.
  Status Open(const std::filesystem::path& path, bool& replaced);
  bool is_open() const { return descriptor_ >= 0; }
  // One write for all of them: whoever reads the file sees it before or after.
  Status Append(const std::vector<Anomaly>& anomalies);
  Status Close();

 private:
  bool IsOwnFile() const;
  Status WriteAt(uint64_t offset, std::string_view text);

  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
  bool has_entries_ = false;
};

// The key "alert" of the configuration.
struct AlertRule {
  enum class Kind : uint8_t { kTurbulence, kNan };
  Kind kind = Kind::kTurbulence;
  std::optional<double> threshold;  // turbulence: beyond (1 + threshold) times the history
  std::vector<Statistic> ops;       // empty: norm and mean for turbulence, all numbers for nan
};

struct AlertSettings {
  std::vector<AlertRule> rules;
  bool dump = false;
  bool compat = false;  // judge as the Python tool does
  // Not of compat:
  int64_t warm_up_steps = 0;  // steps from the first one on that make history, not alerts
  int32_t min_history = 5;    // values of a name and statistic before it is judged
  int32_t window = 32;        // latest values that median and MAD are taken of
};

struct AlertOrigin {
  int64_t rank = 0;
  int64_t pipeline_stage = 0;
  std::vector<int64_t> group_mates = {0};
};

// compat: as the Python tool judges: an average with factor 0.99 from the first value on, which a
// NaN spoils for good; rows of None alarm; the first rule that fires ends the search; every repeat
// is an alert; entries of one tag and call overwrite each other. Turbulence beyond compat: x is an
// alert when |x| is above (1 + threshold) times the median of the window of |x| AND above it by
// more than 6 * 1.4826 * MAD, so that neither a steady number that trembles nor a noisy one alarms;
// an infinity always is one, a history of zeros judges nothing else. Numbers that alarm do not
// enter the history, unless they stay: after `min_history` of them in a row it starts anew. NaN
// never enters it, and rows of None are not looked at. NaN beyond compat: a count of nans above 0
// is an alert too. One alert is reported per (tag, op, rule) until a number that is none; how many
// were kept back is reported then.
class AlertJudge {
 public:
  // Touches no file. `folder`: $MONITOR_OUTPUT_DIR. `say` gets the first messages of each step, one
  // line each, and a count of the others.
  AlertJudge(AlertSettings settings, AlertOrigin place, std::filesystem::path folder,
             std::function<void(std::string_view)> say);
  AlertJudge(const AlertJudge&) = delete;
  AlertJudge& operator=(const AlertJudge&) = delete;
  ~AlertJudge();

  void See(const Batch& batch);
  // Appends the step's alerts to anomaly_detected/rank<R>/anomaly.json, which is a whole JSON
  // object before and after; an older one is replaced by the first EndStep.
  Status EndStep(int64_t step);
  Status Close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace msprobe::monitor
