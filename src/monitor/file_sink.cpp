#include "src/monitor/file_sink.h"

#include <utility>

#include "src/base/log.h"
#include "src/monitor/writer.h"

namespace msprobe::monitor {
namespace {

class FileSink : public Sink {
 public:
  explicit FileSink(std::unique_ptr<Writer> writer) : writer_(std::move(writer)) {}
  ~FileSink() override {
    if (writer_ != nullptr) {
      if (const Status status = writer_->Close(); !status.ok()) {
        base::LogWarning(status.message());
      }
    }
  }

  Status Write(const Batch& batch) override {
    return writer_ != nullptr ? writer_->Write(batch) : Status();
  }

  Status EndStep(int64_t step) override {
    return writer_ != nullptr ? writer_->EndStep(step) : Status();
  }

 private:
  const std::unique_ptr<Writer> writer_;  // null: format api
};

}  // namespace

Result<std::shared_ptr<Sink>> MakeFileSink(const std::filesystem::path& folder,
                                           const std::filesystem::path& /*output_root*/,
                                           const Place& /*place*/, const Settings& settings) {
  std::unique_ptr<Writer> writer;
  if (settings.format == Format::kCsv) {
    writer = MakeCsvWriter(folder, {.digits = settings.digits, .compat = settings.compat},
                           settings.steps_per_file);
  }
  return std::shared_ptr<Sink>(std::make_shared<FileSink>(std::move(writer)));
}

}  // namespace msprobe::monitor
