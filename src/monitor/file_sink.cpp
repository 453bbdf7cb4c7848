#include "src/monitor/file_sink.h"

#include <utility>

#include "src/base/log.h"
#include "src/monitor/alert_judge.h"
#include "src/monitor/writer.h"

namespace msprobe::monitor {
namespace {

class FileSink : public Sink {
 public:
  FileSink(std::unique_ptr<Writer> writer, std::unique_ptr<AlertJudge> judge)
      : writer_(std::move(writer)), judge_(std::move(judge)) {}
  ~FileSink() override {
    for (const Status& status : {writer_ != nullptr ? writer_->Close() : Status(),
                                 judge_ != nullptr ? judge_->Close() : Status()}) {
      if (!status.ok()) {
        base::LogWarning(status.message());
      }
    }
  }

  // Alerts are judged whatever the files come to.
  Status Write(const Batch& batch) override {
    if (judge_ != nullptr) {
      judge_->See(batch);
    }
    return writer_ != nullptr ? writer_->Write(batch) : Status();
  }

  Status EndStep(int64_t step) override {
    Status judged = judge_ != nullptr ? judge_->EndStep(step) : Status();
    Status written = writer_ != nullptr ? writer_->EndStep(step) : Status();
    return written.ok() ? std::move(judged) : std::move(written);
  }

 private:
  const std::unique_ptr<Writer> writer_;     // null: format api
  const std::unique_ptr<AlertJudge> judge_;  // null: no rules
};

std::unique_ptr<Writer> MakeCsv(const std::filesystem::path& folder, const Settings& settings) {
  return MakeCsvWriter(folder, CsvRulesOf(settings), settings.steps_per_file);
}

Result<std::unique_ptr<Writer>> MakeWriter(const std::filesystem::path& folder,
                                           const RankTopology& topology, const Settings& settings) {
  switch (settings.format) {
    case Format::kCsv:
      return MakeCsv(folder, settings);
    case Format::kTensorBoard:
      return MakeTensorBoardWriter(folder);
    case Format::kSqlite: {
      Result<std::unique_ptr<Writer>> store =
          MakeStoreWriter(folder, static_cast<int32_t>(topology.rank));
      if (store.ok()) {
        return store;
      }
      base::LogWarning(store.status().message());
      base::LogHint(store.status().hint());
      base::LogHint("tables are written as CSV instead; `msprobe monitor csv2db` makes a store");
      return MakeCsv(folder, settings);
    }
    case Format::kApi:
      break;
  }
  return std::unique_ptr<Writer>();
}

}  // namespace

Result<std::shared_ptr<Sink>> MakeFileSink(const std::filesystem::path& folder,
                                           const std::filesystem::path& output_root,
                                           const RankTopology& topology, const Settings& settings) {
  MSP_ASSIGN_OR_RETURN(std::unique_ptr<Writer> writer, MakeWriter(folder, topology, settings));
  std::unique_ptr<AlertJudge> judge;
  if (!settings.alert.rules.empty()) {
    judge = std::make_unique<AlertJudge>(
        settings.alert,
        AlertOrigin{topology.rank, topology.pipeline_stage, topology.pipeline_ranks}, output_root,
        [](std::string_view text) { base::LogWarning(text); });
  }
  return std::shared_ptr<Sink>(std::make_shared<FileSink>(std::move(writer), std::move(judge)));
}

}  // namespace msprobe::monitor
