#include "src/monitor/row_builder.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

namespace msprobe::monitor {
namespace {

constexpr std::array<std::string_view, kTableCount> kTableNames = {"actv",
                                                                   "actv_grad",
                                                                   "grad_unreduced",
                                                                   "grad_reduced",
                                                                   "exp_avg",
                                                                   "exp_avg_sq",
                                                                   "param_origin",
                                                                   "param_updated",
                                                                   "update_ratio",
                                                                   kFeatureTables[0].name,
                                                                   kFeatureTables[1].name,
                                                                   kFeatureTables[2].name,
                                                                   kFeatureTables[3].name,
                                                                   "other"};

}  // namespace

std::string_view TableName(Table table) { return kTableNames[static_cast<size_t>(table)]; }

std::optional<FeatureHook> FeatureHookOf(Table table) {
  if (table < Table::kAttentionHook || table > Table::kRouterLogitHook) {
    return std::nullopt;
  }
  return static_cast<FeatureHook>(static_cast<size_t>(table) -
                                  static_cast<size_t>(Table::kAttentionHook));
}

namespace {

constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();

void AppendNumber(int64_t number, std::string& out) {
  const fmt::format_int text(number);
  out.append(text.data(), text.size());
}

// Assigns into the text that a value holds already, if it does.
std::string& TextOf(Value& value) {
  if (!std::holds_alternative<std::string>(value)) {
    value = std::string();
  }
  auto& text = std::get<std::string>(value);
  text.clear();
  return text;
}

void PutShape(const StepBuffer& step, const Record& record, Value& value) {
  std::string& text = TextOf(value);
  text += '[';
  for (uint32_t i = 0; i < record.dimensions; ++i) {
    text += i == 0 ? "" : ", ";
    AppendNumber(step.shapes[record.shape_begin + i], text);
  }
  text += ']';
}

bool HasTexts(const Record& record) {
  return record.dtype_text != nullptr && record.numbers.kind != TensorNumbers::Kind::kNotATensor;
}

bool HasMicroStep(Table table, const Settings& settings) {
  if (const auto hook = FeatureHookOf(table)) {
    return TableOf(*hook).has_micro_step;
  }
  return table == Table::kActv || table == Table::kActvGrad ||
         (table == Table::kGradUnreduced && settings.monitor_mbs_grad);
}

}  // namespace

MeasureRules RulesOf(const Settings& settings) {
  const auto wants = [&](Statistic op) {
    return std::find(settings.ops.begin(), settings.ops.end(), op) != settings.ops.end();
  };
  return {.eps = settings.eps,
          .compat = settings.compat,
          .wants_zeros = wants(Statistic::kZeros),
          .wants_small = wants(Statistic::kSubnormals) || wants(Statistic::kDynamicRange)};
}

void RowBuilder::Build(const StepBuffer& step, const Visit& visit) {
  for (std::vector<uint32_t>& records : records_) {
    records.clear();
  }
  for (uint32_t i = 0; i < step.records.size(); ++i) {
    records_[static_cast<size_t>(step.records[i].slot->table)].push_back(i);
  }
  for (size_t table = 0; table < kTableCount; ++table) {
    EmitTable(step, static_cast<Table>(table), visit);
  }
}

void RowBuilder::BuildTable(const StepBuffer& step, Table table, const Visit& visit) {
  std::vector<uint32_t>& records = records_[static_cast<size_t>(table)];
  records.clear();
  for (uint32_t i = 0; i < step.records.size(); ++i) {
    if (step.records[i].slot->table == table) {
      records.push_back(i);
    }
  }
  EmitTable(step, table, visit);
}

void RowBuilder::EmitTable(const StepBuffer& step, Table table, const Visit& visit) {
  rules_ = RulesOf(*step.settings);
  const std::vector<uint32_t>& records = records_[static_cast<size_t>(table)];
  if (table != Table::kActv) {
    Emit(step, table, records, visit);
    return;
  }
  std::fill(place_of_group_.begin(), place_of_group_.end(), kNowhere);
  uint32_t used = 0;
  for (const uint32_t i : records) {
    const SlotInfo& slot = *step.records[i].slot;
    if (slot.group >= place_of_group_.size()) {
      place_of_group_.resize(slot.group + 1, kNowhere);
    }
    uint32_t& place = place_of_group_[slot.group];
    if (place == kNowhere) {
      place = used++;
      modules_.resize(std::max<size_t>(modules_.size(), used));
      modules_[place].clear();
    }
    modules_[place].push_back(i);
  }
  for (uint32_t place = 0; place < used; ++place) {
    Emit(step, table, modules_[place], visit);
  }
}

void RowBuilder::Emit(const StepBuffer& step, Table table, const std::vector<uint32_t>& records,
                      const Visit& visit) {
  if (records.empty()) {
    return;
  }
  batch_.table = TableName(table);
  batch_.step = step.step;
  batch_.has_micro_step = HasMicroStep(table, *step.settings);
  batch_.columns.clear();
  if (table == Table::kUpdateRatio) {
    batch_.columns.push_back(Statistic::kValue);
  } else if (const auto hook = FeatureHookOf(table)) {
    const std::span<const Statistic> columns = TableOf(*hook).columns;
    batch_.columns.assign(columns.begin(), columns.end());
  } else {
    batch_.columns = step.settings->ops;
    if (table == Table::kOther && step.settings->cc.enable) {
      batch_.columns.push_back(Statistic::kCalls);
    }
  }
  // Rows that are not needed now keep their memory for a longer batch.
  while (batch_.rows.size() > records.size()) {
    spare_rows_.push_back(std::move(batch_.rows.back()));
    batch_.rows.pop_back();
  }
  while (batch_.rows.size() < records.size()) {
    batch_.rows.emplace_back();
    if (!spare_rows_.empty()) {
      batch_.rows.back() = std::move(spare_rows_.back());
      spare_rows_.pop_back();
    }
  }
  for (size_t i = 0; i < records.size(); ++i) {
    FillRow(step, step.records[records[i]], batch_.rows[i]);
  }
  visit(batch_);
}

void RowBuilder::FillRow(const StepBuffer& step, const Record& record, Row& row) {
  const SlotInfo& slot = *record.slot;
  row.stage = slot.stage;
  row.name = slot.name;
  if (record.index != kNone) {
    row.name += '_';
    AppendNumber(record.index, row.name);
  }
  row.tag.clear();
  if (!slot.is_call) {
    AppendNumber(slot.stage, row.tag);
    row.tag += ':';
  }
  row.tag += row.name;
  row.micro_step.reset();
  if (record.micro_step != kNone) {
    row.micro_step = record.micro_step;
    row.tag += ':';
    AppendNumber(record.micro_step, row.tag);
  }
  row.tag += "/rank";
  AppendNumber(step.rank, row.tag);
  row.tag += '/';
  row.tag += slot.task;
  if (slot.is_call) {
    row.name += '.';
    row.name += slot.task;
  }
  const bool has_call_id = slot.table != Table::kParamOrigin && slot.table != Table::kParamUpdated;
  row.call_id = has_call_id ? record.call_id : kNone;

  const std::optional<DType> dtype =
      record.numbers.is_known_dtype ? std::optional(record.numbers.dtype) : std::nullopt;
  row.values.resize(batch_.columns.size());
  size_t reduced = 0;
  for (size_t i = 0; i < batch_.columns.size(); ++i) {
    const Statistic op = batch_.columns[i];
    Value& value = row.values[i];
    if (op == Statistic::kShape || op == Statistic::kDType) {
      if (!HasTexts(record)) {
        value = std::monostate();
      } else if (op == Statistic::kShape) {
        PutShape(step, record, value);
      } else {
        TextOf(value) = *record.dtype_text;
      }
    } else if (record.is_reduced && reduced < record.reduced_count) {
      value = ColumnOfReduced(op, dtype, step.reduced[record.reduced_begin + reduced], rules_);
      ++reduced;
    } else {
      value = ColumnValue(op, record.numbers, rules_);
    }
  }
}

}  // namespace msprobe::monitor
