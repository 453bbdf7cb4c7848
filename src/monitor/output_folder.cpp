#include "src/monitor/output_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "msprobe/version.h"

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/json/document.h"
#include "src/json/writer.h"

namespace msprobe::monitor {
namespace {

// "2026-11-21T09:59:07.123456Z"
std::string NowUtc() {
  using std::chrono::microseconds;
  const int64_t now =
      std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  const std::time_t seconds = now / 1'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     now % 1'000'000);
}

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

void PutRanks(json::Writer& json, std::string_view key,
              const std::optional<std::vector<int64_t>>& ranks) {
  if (ranks) {
    json.Member(key, *ranks);
  } else {
    json.Key(key);
    json.Null();
  }
}

}  // namespace

Status WriteTopologyFile(const std::filesystem::path& folder, const RankTopology& topology,
                         const Settings& settings, std::string_view framework) {
  MSP_ASSIGN_OR_RETURN(const json::Json written, json::ParseDocument(SettingsJson(settings)));
  std::string text;
  json::Writer json(text, 2);
  json.BeginObject();
  json.Member("msprobe", MSPROBE_VERSION);
  json.Member("started", NowUtc());
  json.Member("host", HostName());
  json.Member("process", int64_t{::getpid()});
  json.Member("framework", framework);
  json.Member("distributed", topology.is_distributed);
  json.Member("rank", topology.rank);
  json.Member("world_size", topology.world_size);
  json.Member("pipeline_stage", topology.pipeline_stage);
  PutRanks(json, "group_mates", topology.pipeline_ranks);
  PutRanks(json, "tensor_ranks", topology.tensor_ranks);
  PutRanks(json, "data_ranks", topology.data_ranks);
  json.Key("settings");
  json::WriteDocument(written, json);
  json.EndObject();
  text += '\n';
  return base::WriteFileAtomically(folder / kTopologyFileName, text, base::Existing::kReplace);
}

namespace {

constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<int64_t, 12> kDaysBefore = {0,   31,  60,  91,  121, 152,
                                                 182, 213, 244, 274, 305, 335};
constexpr std::array<int64_t, 12> kDaysOf = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
constexpr int64_t kShanghaiSeconds = int64_t{8} * 3600;
constexpr std::string_view kRankMark = "-rank";
constexpr size_t kLongestStamp = 20;
constexpr size_t kMostRankDigits = 5;
constexpr int kMostTries = 100;

bool IsStampCharacter(char c) {
  return base::IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '-';
}

// Two digits at `at`, up to `most`.
std::optional<int64_t> TwoDigits(std::string_view text, size_t at, int64_t most) {
  if (!base::IsDigit(text[at]) || !base::IsDigit(text[at + 1])) {
    return std::nullopt;
  }
  const int64_t number = (text[at] - '0') * 10 + (text[at + 1] - '0');
  return number <= most ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<OutputFolderName> ParseOutputFolderName(std::string_view name) {
  // A stamp may hold hyphens, even "-rank": the longest one counts.
  for (size_t length = std::min(kLongestStamp, name.size());; --length) {
    const std::string_view rest = name.substr(length);
    if (rest.starts_with(kRankMark) &&
        std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(length),
                    IsStampCharacter)) {
      const std::string_view behind = rest.substr(kRankMark.size());
      const size_t digits = std::min(behind.find_first_not_of("0123456789"), behind.size());
      if (digits >= 1 && digits <= kMostRankDigits && digits < behind.size() &&
          behind[digits] == '-') {
        return OutputFolderName{std::string(name.substr(0, length)),
                                *base::ParseInt(behind.substr(0, digits)),
                                std::string(behind.substr(digits + 1))};
      }
    }
    if (length == 0) {
      return std::nullopt;
    }
  }
}

std::optional<int64_t> StampOrder(std::string_view stamp) {
  constexpr std::string_view kShape = "Mmmdd_hh-mm-ss";
  if (stamp.size() != kShape.size() || stamp[5] != '_' || stamp[8] != '-' || stamp[11] != '-') {
    return std::nullopt;
  }
  const auto* const month = std::find(kMonths.begin(), kMonths.end(), stamp.substr(0, 3));
  const auto day = TwoDigits(stamp, 3, 31);
  const auto hour = TwoDigits(stamp, 6, 23);
  const auto minute = TwoDigits(stamp, 9, 59);
  const auto second = TwoDigits(stamp, 12, 60);
  if (month == kMonths.end() || !day || !hour || !minute || !second) {
    return std::nullopt;
  }
  const auto index = static_cast<size_t>(month - kMonths.begin());
  if (*day < 1 || *day > kDaysOf[index]) {
    return std::nullopt;
  }
  return (((kDaysBefore[index] + *day - 1) * 24 + *hour) * 60 + *minute) * 60 + *second;
}

std::string StampOf(int64_t unix_seconds) {
  const std::time_t shifted = unix_seconds + kShanghaiSeconds;
  std::tm parts{};
  ::gmtime_r(&shifted, &parts);
  return fmt::format("{}{:02}_{:02}-{:02}-{:02}", kMonths[static_cast<size_t>(parts.tm_mon)],
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string LocalTimeOf(std::string_view stamp, int64_t now) {
  constexpr int64_t kDay = int64_t{24} * 3600;
  const std::optional<int64_t> order = StampOrder(stamp);
  if (!order) {
    return "";
  }
  const int64_t day_of_year = *order / kDay;
  const auto* const behind = std::upper_bound(kDaysBefore.begin(), kDaysBefore.end(), day_of_year);
  const auto month = static_cast<size_t>(behind - kDaysBefore.begin()) - 1;
  const std::time_t shifted = now + kShanghaiSeconds;
  std::tm parts{};
  ::gmtime_r(&shifted, &parts);
  std::time_t seconds = 0;
  for (int year = parts.tm_year + 1; year >= parts.tm_year - 1; --year) {
    std::tm begins{};
    begins.tm_year = year;
    begins.tm_mon = static_cast<int>(month);
    begins.tm_mday = static_cast<int>(day_of_year - kDaysBefore[month]) + 1;
    seconds = ::timegm(&begins) + *order % kDay - kShanghaiSeconds;
    if (seconds < now + kDay) {
      break;
    }
  }
  ::localtime_r(&seconds, &parts);
  return fmt::format("{}{:02} {:02}:{:02}:{:02}", kMonths[static_cast<size_t>(parts.tm_mon)],
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

Result<std::filesystem::path> MakeOutputFolder(const std::filesystem::path& root, int64_t rank) {
  MSP_RETURN_IF_ERROR(base::CreateFolders(root), "the output of the monitor");
  std::random_device random;
  for (int i = 0; i < kMostTries; ++i) {
    const std::filesystem::path folder =
        root / fmt::format("{}-rank{}-{:08x}", StampOf(std::time(nullptr)), rank, random());
    if (::mkdir(folder.c_str(), 0750) == 0) {
      return folder;
    }
    if (errno != EEXIST) {
      return IoError(
          fmt::format("cannot make the folder {}: {}", folder.string(), std::strerror(errno)));
    }
  }
  return IoError(fmt::format("cannot find a free name for a folder in {}", root.string()));
}

Result<std::filesystem::path> FindOutputFolder(const std::filesystem::path& root, int64_t rank,
                                               const std::vector<std::string>& stamps) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(root),
                       "append_output");
  const std::optional<int64_t> first = StampOrder(stamps.at(0));
  const std::optional<int64_t> last = StampOrder(stamps.at(1));
  std::optional<int64_t> best;
  std::filesystem::path found;
  for (const std::string& name : names) {
    const std::optional<OutputFolderName> parsed = ParseOutputFolderName(name);
    const std::optional<int64_t> order = parsed ? StampOrder(parsed->stamp) : std::nullopt;
    const bool fits = order && parsed->rank == rank && order >= first && order <= last;
    if (fits && (!best || *order > *best)) {
      best = order;
      found = root / name;
    }
  }
  if (!best) {
    return NotFoundError(fmt::format("append_output: {} holds no folder of rank {} from {} to {}",
                                     root.string(), rank, stamps[0], stamps[1]))
        .WithHint("leave append_output empty to begin a new folder");
  }
  return found;
}

}  // namespace msprobe::monitor
