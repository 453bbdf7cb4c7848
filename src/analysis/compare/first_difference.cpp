// -da of v26: the first call that differs, over all ranks of a step.
//
// Per rank, every call is recorded as the same, ignored, or differing (a relative error of an
// output above the limit). Ranks have no common clock, only their communications: the search
// therefore looks (1) before the first communication of each rank, (2) between communications,
// where a call's time is (number of communications before it, calls since then) with matched
// communications numbered alike, and the smallest time wins, (3) after the last communication.
// All ranks that differ first are written to diff_analyze_<time>.json.
#include "src/analysis/compare/first_difference.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/judging_v26.h"
#include "src/analysis/compare/result_table.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/communication.h"
#include "src/dump/names.h"
#include "src/json/writer.h"

namespace msprobe::analysis::compare {

namespace {

// A relative error of an output beyond this makes its call a differing one.
constexpr double kLargeErrorPercent = 50;

constexpr std::string_view kIgnoredParts[] = {"Torch.empty", "Torch.fill", "Tensor.__setitem__"};
constexpr std::string_view kNone = "None";

size_t FieldCount(std::string_view name) { return base::Split(name, '.').size(); }

// Results of a fused attention that hold nothing but the state of its random generator.
bool IsRandomState(std::string_view row_name) {
  return row_name.find("npu_fusion_attention") != std::string_view::npos &&
         (row_name.ends_with(".output.4") || row_name.ends_with(".output.5"));
}

bool OutputDiffers(CompareMode mode, const SideRow& npu, const SideRow* bench,
                   const RowResult& row) {
  if (IsRandomState(npu.name)) {
    return false;
  }
  if (mode == CompareMode::kMd5) {
    return bench != nullptr && npu.md5 != bench->md5;
  }
  for (const StatMetric metric : {kMaxRel, kMinRel, kMeanRel, kNormRel}) {
    const Metric& error = row.metrics[metric];
    if (error.kind == MetricKind::kPercent && error.number() > kLargeErrorPercent) {
      return true;
    }
  }
  return false;
}

std::string_view StateName(dump::RowState state) {
  return state == dump::RowState::kKwargs ? dump::RowStateName(dump::RowState::kInput)
                                          : dump::RowStateName(state);
}

// The reader of this file is the Python tool, which writes infinities bare.
void PutStatistic(json::Writer& json, const StatValue& stat) {
  switch (stat.kind) {
    case StatKind::kBool:
      json.Bool(stat.boolean);
      break;
    case StatKind::kInteger:
      json.Int(stat.integer());
      break;
    case StatKind::kNumber:
      if (!std::isnan(stat.number)) {
        json.Float(stat.number);
        break;
      }
      json.Text("Nan");
      break;
    case StatKind::kNone:
    case StatKind::kText:
      json.Text(StatText(stat));
      break;
  }
}

constexpr const char* kStatNames[] = {"max", "min", "mean", "l2norm"};

void PutStatistics(json::Writer& json, std::string_view side, const SideRow* row) {
  for (size_t i = 0; i < kStatCount; ++i) {
    json.Key(fmt::format("{} {}", side, kStatNames[i]));
    if (row == nullptr) {
      json.Text(kNotApplicable);
    } else {
      PutStatistic(json, row->stats[i]);
    }
  }
}

class Recorder {
 public:
  Recorder(const ComparedPair& pair, int64_t rank)
      : pair_(pair),
        mode_(pair.result.mode == CompareMode::kMd5 ? CompareMode::kMd5 : CompareMode::kStatistics),
        metric_names_(MetricColumns(mode_)),
        with_stack_(pair.show_stack_column && pair.stack),
        json_(record_.json, -1) {
    record_.calls.rank = rank;
  }

  RankRecord Run() {
    const std::vector<RowResult>& rows = pair_.result.rows;
    json_.BeginObject();
    for (size_t first = 0; first < rows.size();) {
      const uint32_t entry = pair_.npu.rows[rows[first].pair.npu].entry;
      size_t end = first;
      while (end < rows.size() && pair_.npu.rows[rows[end].pair.npu].entry == entry) {
        ++end;
      }
      if (FieldCount(pair_.npu.entries[entry].name) >= 4) {
        AddCall(entry, first, end);
      }
      first = end;
    }
    json_.EndObject();
    return std::move(record_);
  }

 private:
  const SideRow* BenchOf(const RowResult& row) const {
    return row.pair.bench == kNoRow ? nullptr : &pair_.bench.rows[row.pair.bench];
  }

  void AddCall(uint32_t entry, size_t first, size_t end) {
    RankCall call;
    call.name = pair_.npu.entries[entry].name;
    call.is_ignored = std::any_of(
        std::begin(kIgnoredParts), std::end(kIgnoredParts),
        [&](std::string_view part) { return call.name.find(part) != std::string::npos; });
    std::vector<RowResult> rows(pair_.result.rows.begin() + static_cast<std::ptrdiff_t>(first),
                                pair_.result.rows.begin() + static_cast<std::ptrdiff_t>(end));
    for (RowResult& row : rows) {
      const SideRow& npu = pair_.npu.rows[row.pair.npu];
      const SideRow* bench = BenchOf(row);
      if (bench == nullptr) {
        row.metrics.fill(Metric::Text(kNotApplicable));
      } else if (mode_ == CompareMode::kStatistics) {
        CompareStatisticsV26(npu, *bench, row);
      }
      if (npu.state == dump::RowState::kOutput && OutputDiffers(mode_, npu, bench, row)) {
        call.is_same = false;
      }
    }
    if (dump::MovesDataBetweenRanks(call.name)) {
      call.communication = CommunicationOf(pair_.npu.entries[entry]);
    }
    const std::vector<std::string>* frames = with_stack_ ? pair_.stack->Find(call.name) : nullptr;
    WriteCall(call, rows, frames);
    if (!call.is_same) {
      DescribeDifference(rows, frames, call);
    }
    record_.calls.calls.push_back(std::move(call));
  }

  // Ranks and groups are numbers or texts in the rows of a call.
  dump::Communication CommunicationOf(const SideEntry& entry) const {
    const auto* rows = pair_.npu.rows.data() + entry.first_row;
    const auto* group = std::find_if(rows, rows + entry.row_count, [](const SideRow& row) {
      return row.dtype == "torch.ProcessGroup" || row.name.ends_with(".group");
    });
    const auto row_of = [&](std::string_view argument) -> const SideRow* {
      const std::string name = fmt::format("{}.input.{}", entry.name, argument);
      const auto* found = std::find_if(rows, rows + entry.row_count,
                                       [&](const SideRow& row) { return row.name == name; });
      return found == rows + entry.row_count ? nullptr : found;
    };
    const auto integer = [&](std::string_view argument) -> std::optional<int64_t> {
      const SideRow* row = row_of(argument);
      if (row == nullptr) {
        return std::nullopt;
      }
      const StatValue& value = row->stats[kMax];
      return value.kind == StatKind::kInteger ? std::optional(value.integer())
             : value.kind == StatKind::kText  ? base::ParseInt(value.text())
                                              : std::nullopt;
    };
    dump::Communication call = dump::DescribeCommunication(
        dump::CommunicationApiOf(entry.name),
        dump::ParseProcessGroup(group == rows + entry.row_count ? std::string_view()
                                                                : group->stats[kMax].text()),
        integer, dump::MatchRules::kPythonDifference);
    call.direction = dump::ParseEntryName(entry.name).direction;
    return call;
  }

  void PutStack(const std::vector<std::string>* frames, json::Writer& json) const {
    json.BeginArray();
    for (const std::string& frame : *frames) {
      json.Text(frame);
    }
    json.EndArray();
  }

  void WriteCall(const RankCall& call, const std::vector<RowResult>& rows,
                 const std::vector<std::string>* frames) {
    json_.Key(call.name);
    json_.BeginObject();
    json_.Member("is_same", call.is_same);
    json_.Key("op_items");
    json_.BeginArray();
    for (size_t i = 0; i < rows.size(); ++i) {
      WriteRow(call, rows[i], i == 0 ? frames : nullptr);
    }
    json_.EndArray();
    json_.EndObject();
  }

  void WriteRow(const RankCall& call, const RowResult& row,
                const std::vector<std::string>* frames) {
    const SideRow& npu = pair_.npu.rows[row.pair.npu];
    const SideRow* bench = BenchOf(row);
    const auto both = [&](const char* npu_key, const char* bench_key, auto&& text_of) {
      json_.Member(npu_key, text_of(npu));
      json_.Member(bench_key, bench == nullptr ? kNotApplicable : text_of(*bench));
    };
    json_.BeginObject();
    both("NPU Name", "Bench Name", [](const SideRow& side) { return side.name; });
    both("NPU Dtype", "Bench Dtype", [](const SideRow& side) { return side.dtype; });
    both("NPU Tensor Shape", "Bench Tensor Shape", [](const SideRow& side) { return side.shape; });
    both("NPU Requires_grad", "Bench Requires_grad", RequiresGradText);
    if (mode_ == CompareMode::kMd5) {
      both("NPU MD5", "BENCH MD5", [](const SideRow& side) { return side.md5; });
    } else {
      for (size_t i = 0; i < metric_names_.size(); ++i) {
        json_.Member(metric_names_[i], MetricText(row.metrics[i]));
      }
      PutStatistics(json_, "NPU", &npu);
      PutStatistics(json_, "Bench", bench);
    }
    const std::string_view bench_grad =
        bench == nullptr ? kNotApplicable : RequiresGradText(*bench);
    json_.Member("Requires_grad Consistent", RequiresGradText(npu) == bench_grad);
    json_.Member("Result", mode_ == CompareMode::kMd5 ? ChecksumWord(npu, bench) : "");
    json_.Member("Err_message", "");
    if (with_stack_) {
      json_.Key("NPU_Stack_Info");
      if (frames == nullptr) {
        json_.Text(kNotApplicable);
      } else {
        PutStack(frames, json_);
      }
    }
    json_.Member("state", StateName(npu.state));
    json_.Member("api_origin_name", call.name);
    const auto place = [](const Side& side, const SideRow* row_of) -> Side::PointToPoint {
      return row_of == nullptr || row_of->point_to_point == 0
                 ? Side::PointToPoint{kNone, kNone}
                 : side.point_to_point[row_of->point_to_point - 1];
    };
    const Side::PointToPoint npu_place = place(pair_.npu, &npu);
    const Side::PointToPoint bench_place = place(pair_.bench, bench);
    json_.Member("NPU P2POp op", npu_place.operation);
    json_.Member("Bench P2POp op", bench_place.operation);
    json_.Member("NPU P2POp peer", npu_place.peer);
    json_.Member("Bench P2POp peer", bench_place.peer);
    json_.EndObject();
  }

  static std::string_view ChecksumWord(const SideRow& npu, const SideRow* bench) {
    if (bench == nullptr) {
      return kNotApplicable;
    }
    return npu.md5 == bench->md5 ? "pass" : "Different";
  }

  void DescribeDifference(const std::vector<RowResult>& rows,
                          const std::vector<std::string>* frames, RankCall& call) const {
    json::Writer json(call.data_info, -1);
    json.BeginObject();
    for (const bool outputs : {false, true}) {
      json.Key(outputs ? "output" : "input");
      json.BeginObject();
      for (const RowResult& row : rows) {
        const SideRow& npu = pair_.npu.rows[row.pair.npu];
        const dump::RowState wanted = outputs ? dump::RowState::kOutput : dump::RowState::kInput;
        const bool is_input = npu.state == dump::RowState::kKwargs;
        if (npu.state != wanted && !(is_input && !outputs)) {
          continue;
        }
        json.Key(npu.name);
        json.BeginObject();
        if (mode_ == CompareMode::kMd5) {
          json.Member("NPU MD5", npu.md5);
        } else {
          PutStatistics(json, "NPU", &npu);
          json.Member("NPU P2POp peer",
                      npu.point_to_point == 0
                          ? kNone
                          : pair_.npu.point_to_point[npu.point_to_point - 1].peer);
        }
        json.EndObject();
      }
      json.EndObject();
    }
    json.EndObject();
    call.stack_info = "null";
    if (frames != nullptr) {
      call.stack_info.clear();
      json::Writer stack(call.stack_info, -1);
      PutStack(frames, stack);
    }
  }

  const ComparedPair& pair_;
  const CompareMode mode_;
  const std::vector<std::string> metric_names_;
  const bool with_stack_;
  RankRecord record_;
  json::Writer json_;
};

bool IsCandidate(const RankCall& call) { return !call.is_same && !call.is_ignored; }

// How many communications a call of each rank has behind it, where calls that belong together have
// the number of the first rank's.
class Layers {
 public:
  explicit Layers(const std::vector<RankCalls>& ranks) {
    std::vector<const dump::RankCommunications*> pointers;
    for (const RankCalls& rank : ranks) {
      dump::RankCommunications& calls =
          ranks_.emplace_back(rank.rank, dump::MatchRules::kPythonDifference);
      for (const RankCall& call : rank.calls) {
        if (call.communication) {
          calls.Add(*call.communication);
        }
      }
    }
    for (const dump::RankCommunications& rank : ranks_) {
      pointers.push_back(&rank);
    }
    matching_ = dump::MatchCommunications(pointers);
  }

  size_t Of(size_t rank, size_t communication) const {
    // By these rules every call has one endpoint.
    const dump::CommunicationEvent& event =
        matching_.events[matching_.event_of_endpoint[rank][communication]];
    return matching_.MembersOf(event).front().endpoint;
  }

 private:
  std::vector<dump::RankCommunications> ranks_;
  dump::CommunicationMatching matching_;
};

// Per rank the first candidate of calls [begin, end).
void AddFirstCandidate(const RankCalls& rank, size_t index, size_t begin, size_t end,
                       std::vector<FirstDifference>& found) {
  for (size_t call = begin; call < end; ++call) {
    if (IsCandidate(rank.calls[call])) {
      found.push_back({index, call});
      return;
    }
  }
}

std::vector<FirstDifference> SearchDuring(const std::vector<RankCalls>& ranks) {
  const Layers layers(ranks);
  std::vector<FirstDifference> found;
  std::pair<size_t, size_t> smallest = {SIZE_MAX, SIZE_MAX};
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<RankCall>& calls = ranks[rank].calls;
    const size_t communications = static_cast<size_t>(std::count_if(
        calls.begin(), calls.end(), [](const RankCall& call) { return call.is_communication(); }));
    size_t communication = 0;  // the next one
    size_t position = 0;       // calls since the one before
    for (size_t call = 0; call < calls.size() && communication < communications; ++call) {
      const std::pair place = {layers.Of(rank, communication), position};
      if (IsCandidate(calls[call])) {
        if (place < smallest) {
          smallest = place;
          found.clear();
        }
        if (place == smallest) {
          found.push_back({rank, call});
        }
      }
      if (calls[call].is_communication()) {
        ++communication;
        position = 0;
      } else if (!calls[call].is_ignored) {
        ++position;
      }
    }
  }
  return found;
}

}  // namespace

RankRecord RecordRank(const ComparedPair& pair, int64_t rank) { return Recorder(pair, rank).Run(); }

std::vector<FirstDifference> FindFirstDifferences(const std::vector<RankCalls>& ranks) {
  std::vector<FirstDifference> found;
  const auto is_communication = [](const RankCall& call) { return call.is_communication(); };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<RankCall>& calls = ranks[rank].calls;
    const auto first = std::find_if(calls.begin(), calls.end(), is_communication);
    AddFirstCandidate(ranks[rank], rank, 0, static_cast<size_t>(first - calls.begin()), found);
  }
  if (found.empty()) {
    found = SearchDuring(ranks);
  }
  if (found.empty()) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const std::vector<RankCall>& calls = ranks[rank].calls;
      const auto last = std::find_if(calls.rbegin(), calls.rend(), is_communication);
      AddFirstCandidate(ranks[rank], rank, static_cast<size_t>(calls.rend() - last), calls.size(),
                        found);
    }
  }
  return found;
}

std::string FirstDifferenceJson(const std::vector<RankCalls>& ranks,
                                const std::vector<FirstDifference>& found) {
  std::string text;
  json::Writer json(text, -1);
  json.BeginObject();
  for (size_t i = 0; i < found.size();) {
    json.Key(fmt::format("rank_{}", ranks[found[i].rank].rank));
    json.BeginArray();
    const size_t rank = found[i].rank;
    for (; i < found.size() && found[i].rank == rank; ++i) {
      const RankCall& call = ranks[rank].calls[found[i].call];
      json.BeginObject();
      json.Member("op_name", call.name);
      json.Key("data_info");
      json.Raw(call.data_info);
      json.Key("stack_info");
      json.Raw(call.stack_info);
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
  return text;
}

namespace {

// "rank 2: Torch.add.0.forward"; of many, the first few.
std::string Named(const std::vector<RankCalls>& ranks, const std::vector<FirstDifference>& found) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, found.size()); ++i) {
    const RankCalls& rank = ranks[found[i].rank];
    text +=
        fmt::format("{}rank {}: {}", i == 0 ? "" : "; ", rank.rank, rank.calls[found[i].call].name);
  }
  return found.size() > kShown ? text + fmt::format(" and {} more", found.size() - kShown) : text;
}

}  // namespace

Result<RankCalls> DifferenceRun::Record(const PlannedPair& plan, const ComparedPair& pair,
                                        std::vector<std::filesystem::path>& files) const {
  RankRecord record = RecordRank(pair, plan.input.rank.value_or(0));
  const std::filesystem::path folder = base::Below(output_folder_, plan.result_subfolder);
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  files.push_back(folder / fmt::format("compare_result_rank{}_{}.json", record.calls.rank, stamp_));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(files.back(), record.json));
  return std::move(record.calls);
}

void DifferenceRun::Add(const PlannedPair& plan, RankCalls calls) {
  if (steps_.empty() || steps_.back().folder != plan.result_subfolder) {
    steps_.push_back({plan.result_subfolder, {}});
  }
  steps_.back().ranks.push_back(std::move(calls));
}

Status DifferenceRun::Finish(std::vector<std::string>& answers,
                             std::vector<std::filesystem::path>& files) const {
  for (const Step& step : steps_) {
    const std::string place = step.folder.empty() ? "" : step.folder.string() + ": ";
    const std::vector<FirstDifference> found = FindFirstDifferences(step.ranks);
    if (found.empty()) {
      answers.push_back(
          place + "First difference over the ranks: none, no output differs by more than half");
      continue;
    }
    const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    const std::filesystem::path file =
        base::Below(output_folder_, step.folder) / fmt::format("diff_analyze_{}.json", now.count());
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(file, FirstDifferenceJson(step.ranks, found)));
    files.push_back(file);
    answers.push_back(fmt::format("{}First difference over the ranks: {} ({})", place,
                                  Named(step.ranks, found), file.string()));
  }
  return OkStatus();
}

}  // namespace msprobe::analysis::compare
