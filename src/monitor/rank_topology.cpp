#include "src/monitor/rank_topology.h"

#include <array>
#include <chrono>
#include <ctime>

#include <fmt/format.h>
#include <unistd.h>

#include "msprobe/version.h"

#include "src/base/files.h"
#include "src/json/value_tree.h"
#include "src/json/writer.h"

namespace msprobe::monitor {
namespace {

// "2026-11-21T09:59:07.123456Z"
std::string NowUtc() {
  using std::chrono::microseconds;
  const int64_t now =
      std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  const std::time_t seconds = now / 1'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     now % 1'000'000);
}

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

void PutRanks(json::Writer& json, std::string_view key,
              const std::optional<std::vector<int64_t>>& ranks) {
  if (ranks) {
    json.Member(key, *ranks);
  } else {
    json.Key(key);
    json.Null();
  }
}

}  // namespace

Status WriteTopologyFile(const std::filesystem::path& folder, const RankTopology& topology,
                         const Settings& settings, std::string_view framework) {
  MSP_ASSIGN_OR_RETURN(const json::ValueTree tree, json::ParseValueTree(SettingsJson(settings)));
  std::string text;
  json::Writer json(text, 2);
  json.BeginObject();
  json.Member("msprobe", MSPROBE_VERSION);
  json.Member("started", NowUtc());
  json.Member("host", HostName());
  json.Member("process", int64_t{::getpid()});
  json.Member("framework", framework);
  json.Member("distributed", topology.is_distributed);
  json.Member("rank", topology.rank);
  json.Member("world_size", topology.world_size);
  json.Member("pipeline_stage", topology.pipeline_stage);
  PutRanks(json, "group_mates", topology.pipeline_ranks);
  PutRanks(json, "tensor_ranks", topology.tensor_ranks);
  PutRanks(json, "data_ranks", topology.data_ranks);
  json.Key("settings");
  json::WriteTree(tree, 0, json);
  json.EndObject();
  text += '\n';
  return base::WriteFileAtomically(folder / kTopologyFileName, text, base::Existing::kReplace);
}

}  // namespace msprobe::monitor
