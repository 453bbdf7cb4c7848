// Any bytes as anomaly.json: entries are whole or left out.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/analysis/monitor/analyse/analyse.h"
#include "src/analysis/monitor/common/anomaly_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::analysis::monitor;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  msprobe::Result<AnomalyFile> file = ParseAnomalies(text, "fuzz.json");
  if (!file.ok()) {
    return 0;
  }
  const size_t entries = file->entries.size();
  if (entries > size || file->warnings.size() > 22) {
    std::abort();
  }
  for (const AnomalyOrder order : {AnomalyOrder::kCausal, AnomalyOrder::kPython}) {
    SortAnomalies(file->entries, entries, order);
  }
  std::string out;
  msprobe::json::Writer json(out, 1);
  json.BeginObject();
  for (const msprobe::monitor::Anomaly& entry : file->entries) {
    msprobe::monitor::WriteAnomaly(entry, json);
  }
  json.EndObject();
  const msprobe::Result<AnomalyFile> again = ParseAnomalies(out, "again.json");
  if (file->entries.size() != entries || !again.ok() || again->entries.size() != entries) {
    std::abort();
  }
  return 0;
}
