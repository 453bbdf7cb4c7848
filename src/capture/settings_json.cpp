#include <string>
#include <vector>

#include "src/capture/settings.h"
#include "src/capture/settings_names.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

std::vector<std::string> DataModeWords(const DataMode& mode) {
  std::vector<std::string> words;
  if (mode.forward != mode.backward) {
    words.emplace_back(mode.forward ? "forward" : "backward");
  }
  if (mode.input != mode.output) {
    words.emplace_back(mode.input ? "input" : "output");
  }
  if (words.empty()) {
    words.emplace_back("all");
  }
  return words;
}

}  // namespace

std::string SettingsJson(const Settings& settings) {
  std::string text;
  json::Writer writer(text, -1);
  writer.BeginObject();
  writer.Member("task", TaskName(settings.task));
  writer.Member("level", LevelName(settings.level));
  writer.Member("dump_path", settings.dump_path);
  writer.Member("rank", settings.ranks);
  writer.Member("step", settings.steps);
  writer.Member("async_dump", settings.async_dump);
  writer.Member("enable_dataloader", settings.enable_dataloader);
  writer.Member("scope", settings.scope);
  writer.Member("list", settings.list);
  writer.Member("tensor_list", settings.tensor_list);
  writer.Member("data_mode", DataModeWords(settings.data_mode));
  writer.Member("summary_mode", NameOf(kSummaryModes, settings.summary_mode));
  writer.Member("overflow_nums", settings.overflow_nums);
  writer.Member("precision", NameOf(kPrecisions, settings.precision));
  writer.Member("api_backward", NameOf(kApiBackwards, settings.api_backward));
  writer.Member("extra_info", settings.extra_info);
  writer.Member("extended_statistics", settings.extended_statistics);
  writer.Member("strict_json", settings.strict_json);
  writer.Member("deduplicate", settings.deduplicate);
  writer.Member("deduplicate_from_bytes", settings.deduplicate_from_bytes);
  writer.Member("writer_memory_bytes", settings.writer_memory_bytes);
  writer.Member("writer_threads", settings.writer_threads);
  writer.EndObject();
  return text;
}

}  // namespace msprobe::capture
