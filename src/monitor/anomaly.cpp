#include "src/monitor/anomaly.h"

namespace msprobe::monitor {

void WriteAnomaly(const Anomaly& anomaly, json::Writer& json) {
  json.Key(anomaly.key);
  json.BeginObject();
  json.Member("rank", anomaly.rank);
  json.Member("step", anomaly.step);
  json.Member("micro_step", anomaly.micro_step);
  json.Member("pp_stage", anomaly.pp_stage);
  json.Member("vpp_stage", anomaly.vpp_stage);
  json.Member("call_id", anomaly.call_id);
  json.Member("tag_name", anomaly.tag_name);
  json.Member("message", anomaly.message);
  json.Key("group_mates");
  json.BeginArray();
  for (const int64_t mate : anomaly.group_mates) {
    json.Int(mate);
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace msprobe::monitor
