// A trend store that somebody else left, and is continued.
#include <cstdint>
#include <vector>

#include "src/monitor/sqlite_api.h"
#include "src/monitor/trend_store.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::monitor;
  static const msprobe::fuzz::InputFolder folder;
  static const SqliteApi* const api = [] {
    const msprobe::Result<const SqliteApi*> found = FindSqlite();
    return found.ok() ? *found : nullptr;
  }();
  if (api == nullptr) {
    return 0;
  }
  const std::filesystem::path path = folder.Write("store.db", msprobe::fuzz::TextOf(data, size));
  msprobe::Result<std::unique_ptr<TrendStore>> store =
      TrendStore::Open(*api, path, TrendStore::Use::kWhole);
  if (!store.ok()) {
    return 0;
  }
  const std::vector<std::string> statistics = {"norm", "max"};
  const std::vector<double> values = {1, 2};
  if ((*store)->Begin().ok()) {
    const msprobe::Result<int64_t> metric = (*store)->Metric("actv", statistics);
    if (metric.ok()) {
      const msprobe::Result<int64_t> target = (*store)->Target("layers.1.mlp.input", 0, 0, *metric);
      if (target.ok()) {
        static_cast<void>((*store)->Insert(0, 1, *target, *metric, values).ok());
      }
    }
    static_cast<void>((*store)->Commit().ok());
  }
  static_cast<void>((*store)->Close().ok());
  return 0;
}
