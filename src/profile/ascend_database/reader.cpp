#include "src/profile/ascend_database/reader.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/database/sqlite_file.h"
#include "src/profile/ascend_database/device.h"
#include "src/profile/ascend_database/host.h"
#include "src/profile/ascend_database/tables.h"

namespace msprobe::profile {
namespace {

constexpr std::string_view kMagic("SQLite format 3\0", 16);

Status ReadReserved(DatabaseTables& tables) {
  double most_bytes = 0;
  MSP_RETURN_IF_ERROR(tables.ForEachRow(
      "MEMORY_RECORD", {"totalReserved"},
      [&](const database::SqliteRow& row) { most_bytes = std::max(most_bytes, row.Number(0)); }));
  tables.profile().memory_used_gb = most_bytes / kBytesPerGb;
  return {};
}

void Warn(const Needs& needs, Profile& profile) {
  const auto warn = [&](bool missing, std::string_view what) {
    if (missing) {
      profile.warnings.push_back(fmt::format("{} holds no {}", profile.path.string(), what));
    }
  };
  warn(needs.operators && profile.operators.empty(), "host operators");
  warn(needs.kernels && profile.kernels.empty(), "device kernels (profiler level 0 records none)");
  warn(needs.flows && profile.flows.empty(),
       "links from operators to kernels: no device time can be given to an operator");
  warn(needs.communication && profile.communication.empty(), "collectives");
}

}  // namespace

bool LooksLikeDatabase(const std::filesystem::path& file) {
  return base::HeadOf(file, kMagic.size()) == kMagic;
}

Result<Profile> ReadAscendDatabase(const std::filesystem::path& file, const Needs& needs) {
  if (!LooksLikeDatabase(file)) {
    return base::Exists(file)
               ? BadFormatError(fmt::format("{} is not a SQLite database", file.string()))
               : NotFoundError(fmt::format("{} does not exist", file.string()));
  }
  Profile profile;
  profile.path = file;
  profile.device = Device::kNpu;
  profile.source = Source::kDatabase;
  Result<database::SqliteFile> opened = database::SqliteFile::Open(file);
  if (!opened.ok()) {
    // A database that the system refuses concerns its rank only, as a damaged one does.
    return BadFormatError(opened.status().message()).WithHint(opened.status().hint());
  }
  const database::SqliteFile database = *std::move(opened);
  DatabaseTables tables(database, needs, profile);
  MSP_RETURN_IF_ERROR(tables.Load());
  DatabaseDevice device(tables);
  MSP_RETURN_IF_ERROR(device.Read());
  DatabaseHost host(tables);
  if (needs.operators || needs.flows || needs.python_calls || needs.memory) {
    MSP_RETURN_IF_ERROR(host.Read());
  }
  if (needs.flows) {
    host.Launch(device.connections());
  }
  if (needs.memory) {
    MSP_RETURN_IF_ERROR(host.ReadMemory());
  }
  if (needs.overlap) {
    MSP_RETURN_IF_ERROR(ReadReserved(tables));
  }
  Warn(needs, profile);
  return profile;
}

}  // namespace msprobe::profile
