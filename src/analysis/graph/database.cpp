// Rows of nodes are formatted by all threads in blocks and inserted in order by one. Indices exist
// before the rows, as making them afterwards would occupy one thread while the others wait.
//
// Where processes share the ranks, each records the rows of its own in a file, value by value, and
// the first process enters them in the order of the ranks: the database is that of one process.
#include "src/analysis/graph/database.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <type_traits>
#include <unordered_map>

#include <fmt/format.h>
#include <sqlite3.h>

#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/items.h"
#include "src/base/threads.h"
#include "src/dump/entry_tree.h"
#include "src/dump/layout.h"
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

template <typename Value>
void Bind(sqlite3_stmt* statement, int column, const Value& value) {
  if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
    const std::string_view text = value;
    sqlite3_bind_text(statement, column, text.empty() ? "" : text.data(),
                      static_cast<int>(text.size()), SQLITE_STATIC);
  } else if constexpr (std::is_integral_v<Value>) {
    sqlite3_bind_int64(statement, column, static_cast<sqlite3_int64>(value));
  } else if constexpr (std::is_floating_point_v<Value>) {
    sqlite3_bind_double(statement, column, value);
  } else if (value) {
    Bind(statement, column, *value);
  } else {
    sqlite3_bind_null(statement, column);
  }
}

// A value of a recorded row: its kind, then a text's length and bytes, or eight bytes.
enum class Recorded : char { kNull, kText, kInteger, kReal };

template <typename Value>
void AppendBytes(const Value& value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename Value>
void AppendRecorded(const Value& value, std::string& out) {
  if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
    const std::string_view text = value;
    out += static_cast<char>(Recorded::kText);
    AppendBytes(static_cast<uint32_t>(text.size()), out);
    out += text;
  } else if constexpr (std::is_integral_v<Value>) {
    out += static_cast<char>(Recorded::kInteger);
    AppendBytes(static_cast<int64_t>(value), out);
  } else if constexpr (std::is_floating_point_v<Value>) {
    out += static_cast<char>(Recorded::kReal);
    AppendBytes(static_cast<double>(value), out);
  } else if (value) {
    AppendRecorded(*value, out);
  } else {
    out += static_cast<char>(Recorded::kNull);
  }
}

// Reads recorded rows; what is not there makes it fail.
class RecordReader {
 public:
  explicit RecordReader(std::string_view rows) : rest_(rows) {}

  bool has_more() const { return !rest_.empty(); }

  template <typename Value>
  bool Take(Value& value) {
    if (rest_.size() < sizeof value) {
      return false;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return true;
  }

  // Binds the next value, which must outlive the row.
  bool Bind(sqlite3_stmt* statement, int column) {
    char kind = 0;
    if (!Take(kind)) {
      return false;
    }
    uint32_t size = 0;
    int64_t integer = 0;
    double real = 0;
    switch (static_cast<Recorded>(kind)) {
      case Recorded::kNull:
        sqlite3_bind_null(statement, column);
        return true;
      case Recorded::kText:
        if (!Take(size) || rest_.size() < size || size > INT32_MAX) {
          return false;
        }
        graph::Bind(statement, column, rest_.substr(0, size));
        rest_.remove_prefix(size);
        return true;
      case Recorded::kInteger:
        if (!Take(integer)) {
          return false;
        }
        graph::Bind(statement, column, integer);
        return true;
      case Recorded::kReal:
        if (!Take(real)) {
          return false;
        }
        graph::Bind(statement, column, real);
        return true;
    }
    return false;
  }

 private:
  std::string_view rest_;
};

std::optional<std::string_view> OrNull(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

template <typename Write>
std::string JsonText(const Write& write) {
  std::string text;
  json::Writer json(text, -1);
  write(json);
  return text;
}

std::string NumberList(const std::vector<int64_t>& numbers) {
  return JsonText(
      [&](json::Writer& json) { json.Array(numbers, [&](int64_t number) { json.Int(number); }); });
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
    json.Array(stack, [&](const std::string& line) { json.Text(line); });
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

// Formats the rows of one side on one thread.
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
        json.Array(node.children,
                   [&](const uint32_t child) { json.Text(side_.graph.nodes[child].name); });
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
      fill(kMergeInfoText, [&](json::Writer& json) { dump::WriteTree(items_.tree(), info, json); });
    }
    fill(kPartnersText, [&](json::Writer& json) {
      if (const std::vector<Partners>* partners = side_.PartnersOf(node)) {
        WritePartners(*partners, json);
      } else {
        json.Object([] {});
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
  std::unique_ptr<Database> database(new Database(path, is_comparison));
  if (sqlite3_open_v2(path.c_str(), &database->database_,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK) {
    return database->Failure("cannot open the database");
  }
  MSP_RETURN_IF_ERROR(
      // A row with all its values fits into a large page, so that readers of the columns
      // after them need not go through them.
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

Result<std::unique_ptr<Database>> Database::Record(const std::filesystem::path& path,
                                                   bool is_comparison) {
  std::unique_ptr<Database> database(new Database(path, is_comparison));
  MSP_ASSIGN_OR_RETURN(database->record_, base::AtomicFile::Create(path, base::Existing::kReplace));
  return database;
}

Status Database::AddRecorded(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  RecordReader reader(file.text());
  while (reader.has_more()) {
    uint8_t rows = 0;
    sqlite3_stmt* const statement =
        reader.Take(rows) && rows < kRowKinds ? StatementOf(static_cast<Rows>(rows)) : nullptr;
    bool is_whole = statement != nullptr;
    for (int column = 1; is_whole && column <= sqlite3_bind_parameter_count(statement); ++column) {
      is_whole = reader.Bind(statement, column);
    }
    if (!is_whole) {
      return BadFormatError(fmt::format("{} is damaged", path.string()));
    }
    MSP_RETURN_IF_ERROR(Insert(statement));
  }
  return base::CheckMappedFile(file.bytes());
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

sqlite3_stmt* Database::StatementOf(Rows rows) const {
  switch (rows) {
    case Rows::kNodes:
      return node_;
    case Rows::kStacks:
      return stack_;
    case Rows::kDivergence:
      break;
  }
  return divergence_;
}

template <typename... Values>
Status Database::Insert(Rows rows, const Values&... values) {
  if (!record_) {
    return Insert(StatementOf(rows), values...);
  }
  recorded_ += static_cast<char>(rows);
  (AppendRecorded(values, recorded_), ...);
  if (recorded_.size() < kFlushBytes) {
    return {};
  }
  MSP_RETURN_IF_ERROR(record_->Write(recorded_));
  recorded_.clear();
  return {};
}

template <typename... Values>
Status Database::Insert(sqlite3_stmt* statement, const Values&... values) {
  int column = 0;
  (Bind(statement, ++column, values), ...);
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
      MSP_RETURN_IF_ERROR(Insert(Rows::kStacks, stack_id, stacks.new_text()));
    }
    const NodeScore& score = side.scores[index];
    const std::string_view parent =
        node.parent == kNone ? std::string_view() : side.graph.nodes[node.parent].name;
    MSP_RETURN_IF_ERROR(
        Insert(Rows::kNodes, block.Text(place, kIdText), graph_id, order++, node.name,
               std::to_string(static_cast<int>(node.type)), parent,
               block.Text(place, kChildrenText), score.precision, OrNull(score.level),
               node.micro_step.value_or(0), block.Text(place, kLinkText), stack_id,
               block.Text(place, kMergeInfoText), block.Text(place, kPartnersText), /*modified=*/0,
               block.Text(place, kInputsText), block.Text(place, kOutputsText), source, tensors,
               view.step, view.rank, IsCommunicationName(node.name)));
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
  if (!is_comparison_) {
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
  std::optional<std::string_view> reason;
  if (known.point != nullptr) {
    reason = known.point->reason;
  } else if (node.match == kNone) {
    reason = WhyUnmatched(is_npu ? *view.bench : view.npu, node);
  }
  return Insert(
      Rows::kDivergence, view.step, view.rank, is_npu ? "NPU" : "Bench", node.name,
      node.match == kNone && !is_compared ? "unmatched" : compare::RowStatusName(known.standing),
      known.input_error, known.output_error, OrNull(known.origin),
      OrNull(known.point == nullptr ? std::string_view()
                                    : compare::ConfidenceName(known.point->confidence)),
      reason);
}

Status Database::AddRanks(const DatabaseConfig& config) {
  sqlite3_stmt* statement = nullptr;
  MSP_RETURN_IF_ERROR(Prepare("INSERT INTO msprobe_rank VALUES(?,?,?,?,?,?,?,?)", &statement));
  Status status;
  for (const ListedRank& rank : config.verdicts) {
    if (status.ok()) {
      status = Insert(statement, rank.step, rank.rank, rank.verdict, OrNull(rank.first_node),
                      OrNull(rank.title), rank.is_leading, rank.npu_path, rank.bench_path);
    }
  }
  sqlite3_finalize(statement);
  MSP_RETURN_IF_ERROR(std::move(status));
  return Execute(kDivergenceIndex);
}

Status Database::Finish(const DatabaseConfig& config) {
  if (record_) {
    MSP_RETURN_IF_ERROR(record_->Write(recorded_));
    return record_->Commit();
  }
  sqlite3_stmt* statement = nullptr;
  MSP_RETURN_IF_ERROR(Prepare("INSERT INTO tb_config VALUES(?,?,?,?,?,?,?,?,?)", &statement));
  std::string colors = "null";
  std::string_view task;
  std::optional<std::string> tip;
  if (config.is_comparison) {
    colors = JsonText([&](json::Writer& json) { WriteColors(config.mode, Edition::kV26, json); });
    task = TaskName(config.mode);
    tip = ToolTip(config.mode);
  }
  const Status status = Insert(statement, "1", config.is_comparison ? "compare" : "build", task,
                               tip, config.micro_steps, config.overflow_check, colors,
                               NumberList(config.ranks), NumberList(config.steps));
  sqlite3_finalize(statement);
  MSP_RETURN_IF_ERROR(status);
  if (is_comparison_) {
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
