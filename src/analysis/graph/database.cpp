#include "src/analysis/graph/database.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <unordered_map>

#include <fmt/format.h>
#include <sqlite3.h>

#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/items.h"
#include "src/base/threads.h"
#include "src/dump/layout.h"
#include "src/json/value_tree.h"
#include "src/json/writer.h"

namespace msprobe::analysis::graph {
namespace {

constexpr const char* kTables = R"(
CREATE TABLE tb_nodes(
  id TEXT PRIMARY KEY, graph_id TEXT NOT NULL, node_order INTEGER NOT NULL, node_name TEXT NOT NULL,
  node_type TEXT NOT NULL, up_node TEXT, sub_nodes TEXT, precision_index INTEGER,
  overflow_level TEXT, micro_step_id INTEGER NOT NULL, matched_node_link TEXT, stack_id TEXT,
  parallel_merge_info TEXT, matched_distributed TEXT, modified INTEGER NOT NULL, input_data TEXT,
  output_data TEXT, data_source TEXT, dump_data_dir TEXT, step INTEGER NOT NULL,
  rank INTEGER NOT NULL, is_distributed INTEGER);
CREATE TABLE tb_config(
  id TEXT PRIMARY KEY, graph_type TEXT NOT NULL, task TEXT, tool_tip TEXT, micro_steps INTEGER,
  overflow_check INTEGER, node_colors TEXT NOT NULL, rank_list TEXT NOT NULL,
  step_list TEXT NOT NULL);
CREATE TABLE tb_stack(id TEXT PRIMARY KEY, stack_info TEXT);
)";

// Beside the tables of the 26.x line, whose viewer asks for its own by name.
constexpr const char* kDivergenceTables = R"(
CREATE TABLE msprobe_rank(
  step INTEGER NOT NULL, rank INTEGER NOT NULL, verdict TEXT NOT NULL, first_node TEXT, title TEXT,
  is_leading INTEGER NOT NULL, npu_path TEXT NOT NULL, bench_path TEXT NOT NULL);
CREATE TABLE msprobe_divergence(
  step INTEGER NOT NULL, rank INTEGER NOT NULL, data_source TEXT NOT NULL, node_name TEXT NOT NULL,
  standing TEXT NOT NULL, input_error REAL, output_error REAL, origin TEXT, confidence TEXT,
  reason TEXT);
)";
constexpr const char* kDivergenceIndex =
    "CREATE INDEX msprobe_index1 ON msprobe_divergence(step, rank, data_source, node_name);";

// Made before the rows. Afterwards each of them would be a walk through the whole table by one
// thread alone, while rows are entered beside the making of those that follow.
constexpr const char* kIndices = R"(
CREATE INDEX index1 ON tb_nodes(step, rank, data_source, up_node, node_order);
CREATE INDEX index2 ON tb_nodes(step, rank, data_source, node_name);
CREATE INDEX index3 ON tb_nodes(step, rank, data_source, node_order);
CREATE INDEX index4 ON tb_nodes(step, rank, node_order);
CREATE INDEX index5 ON tb_nodes(step, rank, micro_step_id, node_order);
CREATE INDEX index6 ON tb_nodes(step, rank, modified, matched_node_link);
CREATE INDEX index7 ON tb_nodes(is_distributed);
)";

// The values of a row outlive the statement's run.
class RowBinder {
 public:
  explicit RowBinder(sqlite3_stmt* statement) : statement_(statement) {}

  void Text(std::string_view text) {
    sqlite3_bind_text(statement_, ++column_, text.empty() ? "" : text.data(),
                      static_cast<int>(text.size()), SQLITE_STATIC);
  }
  void Int(int64_t value) { sqlite3_bind_int64(statement_, ++column_, value); }
  void Real(double value) { sqlite3_bind_double(statement_, ++column_, value); }
  void Null() { sqlite3_bind_null(statement_, ++column_); }
  void TextOrNull(std::string_view text) { text.empty() ? Null() : Text(text); }
  // NaN is kept as NULL.
  void RealOrNull(const std::optional<double>& value) { value ? Real(*value) : Null(); }

 private:
  sqlite3_stmt* statement_;
  int column_ = 0;
};

std::string NumberList(const std::vector<int64_t>& numbers) {
  std::string text;
  json::Writer json(text, -1);
  json.BeginArray();
  for (const int64_t number : numbers) {
    json.Int(number);
  }
  json.EndArray();
  return text;
}

std::string ColorsText(const DatabaseConfig& config) {
  if (!config.is_comparison) {
    return "null";
  }
  std::string text;
  json::Writer json(text, -1);
  json.BeginObject();
  for (const ColorClass& color : ColorsOf(config.mode, Edition::kV26)) {
    json.Key(color.color);
    json.BeginObject();
    json.Key("value");
    json.BeginArray();
    if (color.range) {
      json.Raw(IndexText(color.range->first));
      json.Raw(IndexText(color.range->second));
    }
    json.EndArray();
    json.Member("description", color.description);
    json.Member("accuracy_level", color.level);
    json.EndObject();
  }
  json.EndObject();
  return text;
}

// Equal stacks of one graph share a row.
class StackTable {
 public:
  struct Place {
    size_t number = 0;
    bool is_new = false;  // its text is new_text()
  };

  Place Number(std::span<const std::string> stack) {
    // Most stacks are shared in memory already.
    const auto [seen, is_unseen] = seen_.try_emplace({stack.data(), stack.size()}, 0);
    if (!is_unseen) {
      return {seen->second, false};
    }
    text_.clear();
    json::Writer json(text_, -1);
    json.BeginArray();
    for (const std::string& line : stack) {
      json.Text(line);
    }
    json.EndArray();
    const auto [known, added] = numbers_.try_emplace(text_, numbers_.size());
    seen->second = known->second;
    return {known->second, added};
  }
  std::string_view new_text() const { return text_; }

 private:
  std::map<std::pair<const std::string*, size_t>, size_t> seen_;
  std::unordered_map<std::string, size_t> numbers_;
  std::string text_;
};

// The texts of a node's row that have to be made.
enum RowText : uint8_t {
  kIdText,
  kChildrenText,
  kLinkText,
  kMergeInfoText,
  kPartnersText,
  kInputsText,
  kOutputsText,
};
constexpr size_t kRowTexts = 7;

struct RowTexts {
  uint32_t node = 0;
  std::array<uint32_t, kRowTexts> ends{};  // in RowBlock::text
};

struct RowBlock {
  std::string text;  // of all rows, one text after the other
  std::vector<RowTexts> rows;

  std::string_view Text(size_t row, RowText which) const {
    const uint32_t begin = which > 0 ? rows[row].ends[which - 1]
                           : row > 0 ? rows[row - 1].ends[kRowTexts - 1]
                                     : 0;
    return std::string_view(text).substr(begin, rows[row].ends[which] - begin);
  }
};

// Of one side, for one thread.
class RowFormatter {
 public:
  RowFormatter(const RankView& view, bool is_npu, std::string_view graph_id)
      : view_(view),
        side_(is_npu ? view.npu : *view.bench),
        other_(!view.bench ? nullptr
               : is_npu    ? &*view.bench
                           : &view.npu),
        is_npu_(is_npu),
        graph_id_(graph_id),
        items_(*side_.dump, Edition::kV26, view.mode == compare::CompareMode::kMd5) {}

  Status Format(std::span<const uint32_t> nodes, RowBlock& block) {
    block.text.clear();
    block.rows.clear();
    for (const uint32_t node : nodes) {
      block.rows.emplace_back().node = node;
      MSP_RETURN_IF_ERROR(FormatRow(block));
    }
    return {};
  }

 private:
  Status FormatRow(RowBlock& block) {
    RowTexts& row = block.rows.back();
    const Node& node = side_.graph.nodes[row.node];
    MSP_RETURN_IF_ERROR(items_.Open(node.entry));
    const auto end = [&](RowText which) {
      row.ends[which] = static_cast<uint32_t>(block.text.size());
    };
    const auto fill = [&](RowText which, const auto& write) {
      json::Writer json(block.text, -1);
      write(json);
      end(which);
    };
    ComparedRows compared;
    if (is_npu_ && view_.result && node.match != kNone) {
      compared = {&view_.bench->dump->side(), &*view_.result};
    }
    block.text += graph_id_;
    block.text += '_';
    block.text += node.name;
    end(kIdText);
    if (node.children.empty()) {
      end(kChildrenText);
    } else {
      fill(kChildrenText, [&](json::Writer& json) {
        json.BeginArray();
        for (const uint32_t child : node.children) {
          json.Text(side_.graph.nodes[child].name);
        }
        json.EndArray();
      });
    }
    fill(kLinkText, [&](json::Writer& json) {
      WriteMatchedLink(other_ == nullptr ? side_.graph : other_->graph,
                       other_ == nullptr ? kNone : node.match, json);
    });
    const uint32_t info = node.entry != kNone && items_.tree()[0].kind == dump::NodeKind::kObject
                              ? items_.tree().Find(0, "parallel_merge_info")
                              : dump::EntryTree::kNone;
    if (info == dump::EntryTree::kNone) {
      end(kMergeInfoText);
    } else {
      fill(kMergeInfoText, [&](json::Writer& json) { json::WriteTree(items_.tree(), info, json); });
    }
    fill(kPartnersText, [&](json::Writer& json) {
      if (const std::vector<Partners>* partners = side_.PartnersOf(node)) {
        WritePartners(*partners, json);
      } else {
        json.BeginObject();
        json.EndObject();
      }
    });
    fill(kInputsText, [&](json::Writer& json) { items_.Write(/*outputs=*/false, compared, json); });
    fill(kOutputsText, [&](json::Writer& json) { items_.Write(/*outputs=*/true, compared, json); });
    return {};
  }

  const RankView& view_;
  const SideView& side_;
  const SideView* const other_;  // null: build only
  const bool is_npu_;
  const std::string_view graph_id_;
  ItemWriter items_;
};

// Where the tensors lie: beside the json, wherever they were recorded.
std::string TensorFolder(const RankDump& dump) {
  const auto& recorded = dump.side().header.dump_data_dir;
  if (!recorded || recorded->empty()) {
    return {};
  }
  if (std::filesystem::path(*recorded).parent_path() == dump.folder()) {
    return *recorded;
  }
  return (dump.folder() / dump::kTensorFolderName).string();
}

}  // namespace

Result<std::unique_ptr<Database>> Database::Create(const std::filesystem::path& path,
                                                   bool is_comparison) {
  std::unique_ptr<Database> database(new Database(path));
  if (sqlite3_open_v2(path.c_str(), &database->database_,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK) {
    return database->Failure("cannot open the database");
  }
  MSP_RETURN_IF_ERROR(
      // A row with all its values fits into a large page, so that readers of what stands behind the
      // values need not go through them.
      database->Execute("PRAGMA page_size=65536; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "
                        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-65536; "
                        "PRAGMA mmap_size=0x10000000; BEGIN;"));
  MSP_RETURN_IF_ERROR(database->Execute(kTables));
  MSP_RETURN_IF_ERROR(database->Execute(kIndices));
  MSP_RETURN_IF_ERROR(
      database->Prepare("INSERT INTO tb_nodes VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                        &database->node_));
  MSP_RETURN_IF_ERROR(database->Prepare("INSERT INTO tb_stack VALUES(?,?)", &database->stack_));
  if (is_comparison) {
    MSP_RETURN_IF_ERROR(database->Execute(kDivergenceTables));
    MSP_RETURN_IF_ERROR(database->Prepare(
        "INSERT INTO msprobe_divergence VALUES(?,?,?,?,?,?,?,?,?,?)", &database->divergence_));
  }
  return database;
}

Database::~Database() {
  sqlite3_finalize(node_);
  sqlite3_finalize(stack_);
  sqlite3_finalize(divergence_);
  sqlite3_close(database_);
}

Status Database::Failure(std::string_view what) const {
  return IoError(fmt::format("{}: {}: {}", path_.string(), what,
                             database_ == nullptr ? "out of memory" : sqlite3_errmsg(database_)))
      .WithHint("check the space in the output folder");
}

Status Database::Execute(const char* sql) {
  return sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK
             ? Status()
             : Failure("cannot write the database");
}

Status Database::Prepare(const char* sql, sqlite3_stmt** statement) {
  return sqlite3_prepare_v2(database_, sql, -1, statement, nullptr) == SQLITE_OK
             ? Status()
             : Failure("cannot write the database");
}

Status Database::Step(sqlite3_stmt* statement) {
  const bool done = sqlite3_step(statement) == SQLITE_DONE;
  Status status = done ? Status() : Failure("cannot write the database");
  sqlite3_reset(statement);
  return status;
}

Status Database::Add(const RankView& view, base::ThreadPool& pool) {
  MSP_RETURN_IF_ERROR(AddSide(view, /*is_npu=*/true, pool));
  return view.bench ? AddSide(view, /*is_npu=*/false, pool) : Status();
}

Status Database::AddSide(const RankView& view, bool is_npu, base::ThreadPool& pool) {
  const SideView& side = is_npu ? view.npu : *view.bench;
  const std::string_view source = is_npu ? "NPU" : "Bench";
  const std::string graph_id = fmt::format("{}_{}_{}", source, view.step, view.rank);
  const std::string tensors = TensorFolder(*side.dump);
  std::vector<RowFormatter> formatters;
  formatters.reserve(pool.thread_count());
  for (size_t thread = 0; thread < pool.thread_count(); ++thread) {
    formatters.emplace_back(view, is_npu, graph_id);
  }
  StackTable stacks;
  std::string stack_id;
  int64_t order = 0;
  const auto insert = [&](const RowBlock& block, size_t place) -> Status {
    const uint32_t index = block.rows[place].node;
    const Node& node = side.graph.nodes[index];
    const StackTable::Place stack = stacks.Number(node.stack);
    stack_id = fmt::format("{}_{}", graph_id, stack.number);
    if (stack.is_new) {
      RowBinder row(stack_);
      row.Text(stack_id);
      row.Text(stacks.new_text());
      MSP_RETURN_IF_ERROR(Step(stack_));
    }
    const NodeScore& score = side.scores[index];
    const std::string type = std::to_string(static_cast<int>(node.type));
    RowBinder row(node_);
    row.Text(block.Text(place, kIdText));
    row.Text(graph_id);
    row.Int(order++);
    row.Text(node.name);
    row.Text(type);
    row.Text(node.parent == kNone ? std::string_view() : side.graph.nodes[node.parent].name);
    row.Text(block.Text(place, kChildrenText));
    row.RealOrNull(score.precision);
    row.TextOrNull(score.level);
    row.Int(node.micro_step.value_or(0));
    row.Text(block.Text(place, kLinkText));
    row.Text(stack_id);
    row.Text(block.Text(place, kMergeInfoText));
    row.Text(block.Text(place, kPartnersText));
    row.Int(0);
    row.Text(block.Text(place, kInputsText));
    row.Text(block.Text(place, kOutputsText));
    row.Text(source);
    row.Text(tensors);
    row.Int(view.step);
    row.Int(view.rank);
    row.Int(IsCommunicationName(node.name) ? 1 : 0);
    MSP_RETURN_IF_ERROR(Step(node_));
    return AddDivergence(view, index, is_npu);
  };
  const std::vector<uint32_t> nodes = side.graph.PostOrder();
  return base::MakeInOrder<RowBlock>(
      pool, (nodes.size() + kBlockNodes - 1) / kBlockNodes,
      [&](size_t number, size_t worker, RowBlock& block) {
        const std::span<const uint32_t> rest = std::span(nodes).subspan(number * kBlockNodes);
        return formatters[worker].Format(rest.first(std::min(rest.size(), kBlockNodes)), block);
      },
      [&](RowBlock& block) -> Status {
        for (size_t place = 0; place < block.rows.size(); ++place) {
          MSP_RETURN_IF_ERROR(insert(block, place));
        }
        return {};
      });
}

Status Database::AddDivergence(const RankView& view, uint32_t index, bool is_npu) {
  if (divergence_ == nullptr) {
    return {};
  }
  const SideView& side = is_npu ? view.npu : *view.bench;
  const Node& node = side.graph.nodes[index];
  NodeDivergence known;
  if (is_npu && !view.divergence.empty()) {
    known = view.divergence[index];
  }
  const bool is_compared = known.standing != compare::RowStatus::kNotCompared;
  if (node.match != kNone && !is_compared && known.point == nullptr) {
    return {};
  }
  RowBinder row(divergence_);
  row.Int(view.step);
  row.Int(view.rank);
  row.Text(is_npu ? "NPU" : "Bench");
  row.Text(node.name);
  row.Text(node.match == kNone && !is_compared ? "unmatched"
                                               : compare::RowStatusName(known.standing));
  row.RealOrNull(known.input_error);
  row.RealOrNull(known.output_error);
  row.TextOrNull(known.origin);
  row.TextOrNull(known.point == nullptr ? std::string_view()
                                        : compare::ConfidenceName(known.point->confidence));
  if (known.point != nullptr) {
    row.Text(known.point->reason);
  } else if (node.match == kNone) {
    row.Text(WhyUnmatched(is_npu ? *view.bench : view.npu, node));
  } else {
    row.Null();
  }
  return Step(divergence_);
}

Status Database::AddRanks(const DatabaseConfig& config) {
  sqlite3_stmt* statement = nullptr;
  MSP_RETURN_IF_ERROR(Prepare("INSERT INTO msprobe_rank VALUES(?,?,?,?,?,?,?,?)", &statement));
  Status status;
  for (const RankVerdict& rank : config.verdicts) {
    if (!status.ok()) {
      break;
    }
    RowBinder row(statement);
    row.Int(rank.step);
    row.Int(rank.rank);
    row.Text(rank.verdict);
    row.TextOrNull(rank.first_node);
    row.TextOrNull(rank.title);
    row.Int(rank.is_leading ? 1 : 0);
    row.Text(rank.npu_path);
    row.Text(rank.bench_path);
    status = Step(statement);
  }
  sqlite3_finalize(statement);
  MSP_RETURN_IF_ERROR(std::move(status));
  return Execute(kDivergenceIndex);
}

Status Database::Finish(const DatabaseConfig& config) {
  sqlite3_stmt* statement = nullptr;
  MSP_RETURN_IF_ERROR(Prepare("INSERT INTO tb_config VALUES(?,?,?,?,?,?,?,?,?)", &statement));
  const std::string tip = ToolTip(config.mode);
  const std::string colors = ColorsText(config);
  const std::string ranks = NumberList(config.ranks);
  const std::string steps = NumberList(config.steps);
  RowBinder row(statement);
  row.Text("1");
  row.Text(config.is_comparison ? "compare" : "build");
  row.Text(config.is_comparison ? TaskName(config.mode) : std::string_view());
  if (config.is_comparison) {
    row.Text(tip);
  } else {
    row.Null();
  }
  row.Int(config.micro_steps);
  row.Int(config.overflow_check ? 1 : 0);
  row.Text(colors);
  row.Text(ranks);
  row.Text(steps);
  const Status status = Step(statement);
  sqlite3_finalize(statement);
  MSP_RETURN_IF_ERROR(status);
  if (divergence_ != nullptr) {
    MSP_RETURN_IF_ERROR(AddRanks(config));
  }
  MSP_RETURN_IF_ERROR(Execute("COMMIT"));
  for (sqlite3_stmt** prepared : {&node_, &stack_, &divergence_}) {
    sqlite3_finalize(*prepared);
    *prepared = nullptr;
  }
  const bool closed = sqlite3_close(database_) == SQLITE_OK;
  database_ = closed ? nullptr : database_;
  return closed ? Status() : Failure("cannot close the database");
}

}  // namespace msprobe::analysis::graph
