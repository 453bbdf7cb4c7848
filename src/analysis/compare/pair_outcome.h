// What a compared pair adds to the run, without its rows: kept until all pairs are there, and
// handed from process to process where several share the ranks (base/shared_run.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/analysis/compare/first_difference.h"
#include "src/analysis/compare/page/compare_page.h"
#include "src/analysis/compare/summary.h"
#include "src/base/packed.h"

namespace msprobe::analysis::compare {

struct PairRemark {
  std::string text;
  bool once = false;  // said once for all pairs that it concerns
};

struct PairOutcome {
  PairSummary summary;  // without the classification of rows and calls
  std::vector<PairRemark> remarks;
  std::string call;                       // of kernels
  std::vector<std::string> log_lines;     // of -tensor_log
  std::optional<ComparePage::Part> page;  // of another process
  std::optional<RankCalls> calls;         // of -da, which one process answers alone
};

// Pairs that follow each other: the steps of a rank.
struct LaneOutcome {
  std::vector<PairOutcome> pairs;
};

// ---- their form in a part ----

template <typename Archive>
void PackMembers(Archive& archive, RowCounts& counts) {
  archive(counts.rows, counts.matched, counts.npu_only, counts.shape_mismatch,
          counts.dtype_mismatch, counts.bench_only, counts.other_level, counts.identical,
          counts.agreeing, counts.drifting, counts.differing, counts.not_compared,
          counts.unreadable, counts.red, counts.yellow, counts.failing, counts.suspicious,
          counts.by_verdict);
}

template <typename Archive>
void PackMembers(Archive& archive, SideOpinion& opinion) {
  archive.Choice(opinion.side, static_cast<size_t>(WrongSide::kUnknown) + 1);
  archive(opinion.reason);
}

template <typename Archive>
void PackMembers(Archive& archive, ArgumentDifference& argument) {
  archive(argument.name, argument.npu, argument.bench);
}

template <typename Archive>
void PackMembers(Archive& archive, Relation& relation) {
  archive.Choice(relation.kind, kRelationKindCount);
  archive(relation.factor, relation.what, relation.cause, relation.subject);
}

template <typename Archive>
void PackMembers(Archive& archive, DivergencePoint& point) {
  archive.Choice(point.kind, kOriginKindCount);
  archive.Choice(point.confidence, static_cast<size_t>(Confidence::kCertain) + 1);
  archive(point.entry, point.place, point.row, point.input_error, point.output_error,
          point.explained_error, point.noise_floor, point.digits, point.amplification, point.reason,
          point.entry_name, point.bench_entry_name, point.row_name, point.layer,
          point.parent_module, point.code_line, point.note, point.argument, point.from_other_rank,
          point.is_saved_value, point.stack, point.wrong_side, point.relation, point.ranks);
}

template <typename Archive>
void PackMembers(Archive& archive, DivergenceReport& report) {
  archive(report.first_of_kind, report.first_origin, report.first_drift, report.amplifiers,
          report.compared_entry_count, report.identical_entry_count, report.agreeing_entry_count,
          report.diverging_entry_count, report.first_unequal_bits);
}

template <typename Archive>
void PackMembers(Archive& archive, LayoutFacts& facts) {
  archive(facts.ranks, facts.tensor, facts.pipeline, facts.data, facts.context, facts.expert,
          facts.fully_sharded, facts.gradient_factor);
  archive.Choice(facts.source, static_cast<size_t>(LayoutFacts::Source::kGiven) + 1);
}

template <typename Archive>
void PackMembers(Archive& archive, PairSummary& pair) {
  archive(pair.npu_path, pair.bench_path, pair.step, pair.rank, pair.is_debug, pair.is_joined,
          pair.task, pair.level, pair.bench_level, pair.npu_framework, pair.bench_framework,
          pair.npu_layout, pair.bench_layout);
  archive.Choice(pair.mode, static_cast<size_t>(CompareMode::kMd5) + 1);
  archive(pair.counts, pair.compared_bytes, pair.divergence, pair.files, pair.timings.load_seconds,
          pair.timings.compare_seconds, pair.timings.write_seconds, pair.error);
}

template <typename Archive>
void PackMembers(Archive& archive, PairRemark& remark) {
  archive(remark.text, remark.once);
}

template <typename Archive>
void PackMembers(Archive& archive, ComparePage::Part& part) {
  archive(part.is_left_out, part.elements, part.rows);
}

template <typename Archive>
void PackMembers(Archive& archive, PairOutcome& outcome) {
  archive(outcome.summary, outcome.remarks, outcome.call, outcome.log_lines, outcome.page);
}

template <typename Archive>
void PackMembers(Archive& archive, LaneOutcome& lane) {
  archive(lane.pairs);
}

}  // namespace msprobe::analysis::compare
