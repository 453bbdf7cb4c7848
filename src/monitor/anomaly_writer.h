// Inside of the room: anomaly.json of one rank, a whole JSON object after every step, without ever
// being read again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/monitor/anomaly.h"

namespace msprobe::monitor {

class AnomalyFileWriter {
 public:
  AnomalyFileWriter() = default;
  AnomalyFileWriter(const AnomalyFileWriter&) = delete;
  AnomalyFileWriter& operator=(const AnomalyFileWriter&) = delete;
  ~AnomalyFileWriter();

  // Makes the folder and an empty object. `replaced`: there was a file before. An error when
  // another process writes it, or when it is a link, no regular file or another user's.
  Status Open(const std::filesystem::path& path, bool& replaced);
  bool is_open() const { return descriptor_ >= 0; }
  // One write for all of them: whoever reads the file sees it before or after.
  Status Append(const std::vector<Anomaly>& anomalies);
  Status Close();

 private:
  bool IsOwnFile() const;
  Status WriteAt(uint64_t offset, std::string_view text);

  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
  bool has_entries_ = false;
};

}  // namespace msprobe::monitor
