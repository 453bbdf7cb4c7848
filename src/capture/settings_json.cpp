#include <string>
#include <vector>

#include "src/capture/settings.h"
#include "src/capture/settings_names.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

void PutTexts(json::Writer& writer, std::string_view key, const std::vector<std::string>& texts) {
  writer.Key(key);
  writer.BeginArray();
  for (const std::string& text : texts) {
    writer.Text(text);
  }
  writer.EndArray();
}

void PutNumbers(json::Writer& writer, std::string_view key, const std::vector<int64_t>& numbers) {
  writer.Key(key);
  writer.BeginArray();
  for (const int64_t number : numbers) {
    writer.Int(number);
  }
  writer.EndArray();
}

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
  PutNumbers(writer, "rank", settings.ranks);
  PutNumbers(writer, "step", settings.steps);
  writer.Member("async_dump", settings.async_dump);
  writer.Member("enable_dataloader", settings.enable_dataloader);
  PutTexts(writer, "scope", settings.scope);
  PutTexts(writer, "list", settings.list);
  PutTexts(writer, "tensor_list", settings.tensor_list);
  PutTexts(writer, "data_mode", DataModeWords(settings.data_mode));
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
