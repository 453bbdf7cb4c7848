// Batches as scalars "<tag>_<op>" of one event file.
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/monitor/event_file.h"
#include "src/monitor/writer.h"

namespace msprobe::monitor {
namespace {

constexpr size_t kFlushBytes = size_t{256} * 1024;

class TensorBoardWriter final : public Writer {
 public:
  explicit TensorBoardWriter(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~TensorBoardWriter() override {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }

  Status Write(const Batch& batch) override;
  Status EndStep(int64_t /*step*/) override { return Flush(); }
  Status Close() override;

 private:
  Status Open();
  Status Flush();
  Status SystemError(std::string_view what) const {
    return IoError(fmt::format("cannot {} {}: {}", what, path_.string(),
                               std::generic_category().message(errno)));
  }

  const std::filesystem::path folder_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string records_;  // whole ones that are not in the file yet
  std::string tag_;
};

// A viewer takes a file for a run as soon as it is there, so none is made before there is a number.
Status TensorBoardWriter::Open() {
  const double now_s = WallTimeNow();
  path_ = folder_ / EventFileName(now_s);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
  if (descriptor_ < 0) {
    return SystemError("make");
  }
  AppendFileVersion(now_s, records_);
  return {};
}

Status TensorBoardWriter::Write(const Batch& batch) {
  const double now_s = WallTimeNow();
  for (const Row& row : batch.rows) {
    for (size_t i = 0; i < batch.columns.size() && i < row.values.size(); ++i) {
      const std::optional<double> number = NumberOf(row.values[i]);
      if (!number.has_value()) {
        continue;
      }
      if (descriptor_ < 0) {
        MSP_RETURN_IF_ERROR(Open());
      }
      tag_ = row.tag;
      tag_ += '_';
      tag_ += StatisticName(batch.columns[i]);
      AppendScalar(tag_, batch.step, *number, now_s, records_);
    }
    if (records_.size() >= kFlushBytes) {
      MSP_RETURN_IF_ERROR(Flush());
    }
  }
  return {};
}

Status TensorBoardWriter::Flush() {
  std::string_view rest = records_;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      Status status = SystemError("write");
      // Nothing behind half a record can be read: the next number begins a file of its own.
      ::close(descriptor_);
      descriptor_ = -1;
      records_.clear();
      return status;
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  records_.clear();
  return {};
}

Status TensorBoardWriter::Close() {
  if (descriptor_ < 0) {
    return {};
  }
  MSP_RETURN_IF_ERROR(Flush());
  const int descriptor = descriptor_;
  descriptor_ = -1;
  return ::close(descriptor) == 0 ? Status() : SystemError("close");
}

}  // namespace

std::unique_ptr<Writer> MakeTensorBoardWriter(std::filesystem::path folder) {
  return std::make_unique<TensorBoardWriter>(std::move(folder));
}

}  // namespace msprobe::monitor
