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

void PutSlices(const std::vector<TensorSlice>& slices, json::Writer& writer) {
  writer.BeginArray();
  for (const TensorSlice& slice : slices) {
    writer.BeginObject();
    writer.Member("dim", slice.dimension);
    if (slice.size) {
      writer.Member("size", *slice.size);
    }
    writer.Member("begin", slice.begin);
    if (slice.end) {
      writer.Member("end", *slice.end);
    }
    writer.EndObject();
  }
  writer.EndArray();
}

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
  if (settings.dump_enable) {
    writer.Member("dump_enable", *settings.dump_enable);
  }
  writer.Member("risk_level", NameOf(kRiskLevels, settings.risk_level));
  writer.Member("custom_op_namespaces", settings.custom_op_namespaces);
  writer.Member("scope", settings.scope);
  writer.Member("list", settings.list);
  writer.Member("tensor_list", settings.tensor_list);
  writer.Member("data_mode", DataModeWords(settings.data_mode));
  writer.Member("summary_mode", NameOf(kSummaryModes, settings.summary_mode));
  writer.Member("overflow_nums", settings.overflow_nums);
  if (settings.searches_differences()) {
    writer.Member("bench_path", settings.bench_path);
    writer.Member("diff_nums", settings.diff_nums);
  }
  if (settings.online) {
    writer.Member("online_run_ut", true);
    writer.Member("nfs_path", settings.online->folder.string());
    writer.Member("host", settings.online->host);
    writer.Member("port", settings.online->port);
    writer.Member("tls_path", settings.online->tls_folder.string());
    writer.Member("plaintext", settings.online->plaintext);
    writer.Member("secret_path", settings.online->secret_file.string());
    writer.Member("online_run_ut_recompute", settings.online_recompute);
    writer.Member("online_wait_ms", settings.online_wait_ms);
  }
  writer.Key("slice");
  PutSlices(settings.slices, writer);
  writer.Member("request_id", settings.request_id);
  writer.Member("precision", NameOf(kPrecisions, settings.precision));
  writer.Member("api_backward", NameOf(kApiBackwards, settings.api_backward));
  if (settings.repeat != 0) {
    writer.Member("repeat", settings.repeat);
  }
  writer.Member("extra_info", settings.extra_info);
  writer.Member("extended_statistics", settings.extended_statistics);
  writer.Member("strict_json", settings.strict_json);
  writer.Member("deduplicate", settings.deduplicate);
  writer.Member("deduplicate_from_bytes", settings.deduplicate_from_bytes);
  writer.Member("writer_memory_bytes", settings.writer_memory_bytes);
  writer.Member("writer_threads", settings.writer_threads);
  if (settings.max_overhead_ms) {
    writer.Member("max_overhead_ms", *settings.max_overhead_ms);
  }
  if (settings.max_bytes_per_s) {
    writer.Member("max_bytes_per_s", *settings.max_bytes_per_s);
  }
  writer.EndObject();
  return text;
}

}  // namespace msprobe::capture
