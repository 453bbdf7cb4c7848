#include "src/serve/site.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/analysis/graph/graph_page.h"
#include "src/base/strings.h"
#include "src/json/document.h"
#include "src/report/web_page.h"

namespace msprobe::serve {
namespace {

using report::Language;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } code { overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); vertical-align: top; }
td { overflow-wrap: anywhere; }
td:first-child { overflow-wrap: normal; font-weight: 600; text-transform: lowercase; } td:last-child { white-space: nowrap; opacity: .7; }
@media (max-width: 600px) { body { margin: 1rem auto; } th, td { padding: .35rem .3rem; } th:last-child, td:last-child { display: none; } }
.good::before { content: "✓ "; } .caution::before { content: "▲ "; } .bad::before { content: "✗ "; }
.good { color: light-dark(#1b6e3c, #7ccf9a); } .caution { color: light-dark(#8a5a00, #e5b454); }
.bad { color: light-dark(#b3261e, #ff9d94); } .hint { opacity: .7; })";

std::string_view ClassOf(const IndexLine& line) {
  if (line.is_broken || line.verdict == "differ" || line.verdict == "failed") {
    return "bad";
  }
  for (const std::string_view tone : {"good", "caution", "bad"}) {
    if (line.tone == tone) {
      return tone;
    }
  }
  if (line.verdict.empty()) {
    return "";
  }
  return line.verdict == "identical" || line.verdict == "agree" ? "good" : "caution";
}

std::string TimeText(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm local{};
  std::array<char, 32> text{};
  if (::localtime_r(&time, &local) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &local) == 0) {
    return {};
  }
  return text.data();
}

std::string Frame(std::string_view title, std::string_view body, std::string_view nonce,
                  Language language = Language::kEnglish) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n"
      "<style nonce=\"{}\">{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      language == Language::kChinese ? "zh" : "en", EscapeHtml(title), nonce, kStyle, body);
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    const bool is_control = static_cast<unsigned char>(letter) < 0x20;  // means nothing in a page
    escaped += letter == '&'    ? "&amp;"
               : letter == '<'  ? "&lt;"
               : letter == '>'  ? "&gt;"
               : letter == '"'  ? "&quot;"
               : letter == '\'' ? "&#39;"
               : is_control     ? "?"
                                : std::string(1, letter);
  }
  return escaped;
}

std::string EscapePath(std::string_view path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
  std::string escaped;
  for (const char letter : path) {
    escaped += kPlain.find(letter) != std::string_view::npos
                   ? std::string(1, letter)
                   : fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  }
  return escaped;
}

std::string IndexPage(std::string_view folder, const std::vector<IndexLine>& lines,
                      const Folder::Listing& listing, std::string_view nonce, Language language) {
  const auto said = [language](std::string_view text) {
    return EscapeHtml(report::InLanguage(text, language));
  };
  std::string body =
      fmt::format("<h1>msprobe serve &middot; <code>{}</code></h1>\n", EscapeHtml(folder));
  for (const std::string& unread : listing.unread) {
    body += fmt::format("<p class=\"bad\">{}: {}</p>\n", said("not looked at"), EscapeHtml(unread));
  }
  if (lines.empty()) {
    body +=
        fmt::format("<p>{}</p>\n",
                    said("No graph (.vis.db) and no page (.html) lies in this folder or below it. "
                         "msprobe graph and msprobe compare --format html write them; then load "
                         "this page again."));
    return Frame("msprobe serve", body, nonce, language);
  }
  body += "<table>\n<thead><tr>";
  for (const char* const column : {"Verdict", "What", "File", "Written"}) {
    body += fmt::format("<th>{}</th>", said(column));
  }
  body += "</tr></thead>\n<tbody>\n";
  for (const IndexLine& line : lines) {
    std::string what = said(line.text);
    if (!line.made_by.empty()) {
      what += (what.empty() ? "" : " &middot; ") + said(line.made_by);
    }
    body += fmt::format(
        "<tr><td class=\"{}\">{}</td><td>{}</td><td><a href=\"files/{}\"><bdi>{}</bdi></a></td>"
        "<td>{}</td></tr>\n",
        ClassOf(line), said(line.is_broken ? "unreadable" : line.verdict), what,
        EscapePath(line.path), EscapeHtml(line.path), TimeText(line.changed));
  }
  body += "</tbody>\n</table>\n";
  if (!listing.is_whole) {
    body += fmt::format(
        "<p>{}</p>\n",
        said(fmt::format("The folder holds more files; the first {} are listed.", lines.size())));
  }
  return Frame("msprobe serve", body, nonce, language);
}

std::string ErrorPage(std::string_view title, std::string_view message, std::string_view hint,
                      std::string_view nonce) {
  std::string body =
      fmt::format("<h1 class=\"bad\">{}</h1>\n<p>{}</p>\n", EscapeHtml(title), EscapeHtml(message));
  if (!hint.empty()) {
    body += fmt::format("<p class=\"hint\">{}</p>\n", EscapeHtml(hint));
  }
  return Frame("msprobe serve", body, nonce);
}

std::string PolicyOf(std::string_view nonce) {
  return fmt::format(
      "default-src 'none'; style-src 'nonce-{}'; base-uri 'none'; form-action 'none'; "
      "frame-ancestors 'none'",
      nonce);
}

namespace {

using analysis::graph::GraphPage;
using analysis::graph::PageParts;
using analysis::graph::StoredGraph;

constexpr std::string_view kFiles = "files/";
constexpr size_t kPageHeadBytes = size_t{4} << 20U;      // where a page's listing is looked for
constexpr size_t kMostListingBytes = size_t{64} << 20U;  // of it, unpacked
constexpr std::string_view kPolicyBegin = "<meta http-equiv=\"Content-Security-Policy\" content=\"";

// A page from the folder may be anybody's: it keeps its script and styles, and reaches neither this
// server nor another one. The policy inside of our own pages is stricter.
constexpr const char* kForeignPagePolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts";

struct PartName {
  size_t rank = 0;
  bool of_tensors = false;
};

// "g3", "g3_n_parent": trees; "g3_tensors", "g3_t_...", "g3_u_...", "g3_error": tensors.
std::optional<PartName> ParsePartName(std::string_view part) {
  PartName name;
  if (!part.starts_with('g')) {
    return std::nullopt;
  }
  const auto [end, failed] = std::from_chars(part.data() + 1, part.data() + part.size(), name.rank);
  if (failed != std::errc()) {
    return std::nullopt;
  }
  const std::string_view rest = part.substr(static_cast<size_t>(end - part.data()));
  if (!rest.empty() && !rest.starts_with('_')) {
    return std::nullopt;
  }
  name.of_tensors =
      rest == "_tensors" || rest == "_error" || rest.starts_with("_t_") || rest.starts_with("_u_");
  return name;
}

// Where the runs part, out of the listing of a page of graph or compare.
std::string TitleIn(const json::Json& page) {
  for (const std::string_view key : {"ranks", "pairs"}) {
    const json::Json* items = json::Find(page, key);
    if (items == nullptr) {
      continue;
    }
    const json::Json* leading = json::Find(page, "leading");
    int64_t place = 0;
    for (const json::Json& item : json::ItemsOf(*items)) {
      if (!item.is_object()) {
        continue;
      }
      const json::Json* mark = json::Find(item, "is_leading");
      const bool is_leading = mark != nullptr
                                  ? json::BoolOf(*mark)
                                  : leading != nullptr && json::IntOf(*leading) == place;
      const std::string& title = json::TextOf(json::Member(item, "title"));
      if (is_leading && !title.empty()) {
        return title;
      }
      ++place;
    }
    return {};
  }
  return {};
}

// Whether the line holds as long as the file is the same one: the system may refuse for a moment.
bool DescribeGraph(base::InputFile file, IndexLine& line) {
  const Result<StoredGraph> graph = StoredGraph::Open(std::move(file));
  if (!graph.ok()) {
    line.is_broken = true;
    line.text = graph.status().message();
    return graph.status().code() == StatusCode::kBadFormat;
  }
  line.verdict = graph->verdict();
  int64_t nodes = 0;
  std::set<int64_t> steps;
  std::set<int64_t> ranks;
  for (const StoredGraph::Rank& rank : graph->ranks()) {
    nodes += rank.nodes;
    steps.insert(rank.step);
    ranks.insert(rank.rank);
  }
  std::string extent = steps.size() > 1 ? base::Plural(steps.size(), "step") : std::string();
  if (steps.size() <= 1 || ranks.size() > 1) {
    extent += (extent.empty() ? "" : " and ") + base::Plural(ranks.size(), "rank");
  }
  const StoredGraph::Rank* leading = graph->leading();
  if (leading != nullptr && !leading->title.empty()) {
    line.text = fmt::format("it starts with {}", leading->title);
  }
  line.made_by = fmt::format("{} of {}, {}", graph->is_comparison() ? "comparison" : "graph",
                             extent, base::Plural(static_cast<uint64_t>(nodes), "node"));
  return true;
}

// The verdict of a page that gives one answer, and the command that gave it.
bool DescribeAnswer(const std::string& head, IndexLine& line) {
  const Result<std::string> listing = report::UnpackBlock(head, "answer", kMostListingBytes);
  const Result<json::Json> answer = listing.ok() ? json::ParseDocument(*listing) : listing.status();
  if (!answer.ok() || !answer->is_object()) {
    return false;
  }
  line.verdict = json::TextOf(json::Member(*answer, "word"));
  line.tone = json::TextOf(json::Member(*answer, "tone"));
  line.text = json::TextOf(json::Member(*answer, "verdict"));
  if (line.text.starts_with(line.verdict)) {
    const size_t rest = line.text.find_first_not_of(": ", line.verdict.size());
    line.text = rest == std::string::npos ? std::string() : line.text.substr(rest);
  }
  line.made_by = "msprobe " + json::TextOf(json::Member(*answer, "command"));
  return true;
}

bool DescribePage(const base::InputFile& file, IndexLine& line) {
  const Result<std::string> read = file.Head(kPageHeadBytes);
  if (!read.ok()) {
    line.is_broken = true;
    line.text = read.status().message();
    return false;
  }
  const std::string& head = *read;
  if (DescribeAnswer(head, line)) {
    return true;
  }
  const size_t title = head.find("<title>");
  const size_t end = title == std::string::npos ? title : head.find("</title>", title);
  line.text = end == std::string::npos
                  ? "a page"
                  : head.substr(title + 7, std::min<size_t>(end - title - 7, 200));
  const Result<std::string> listing = report::UnpackBlock(head, "run", kMostListingBytes);
  if (!listing.ok()) {
    return true;
  }
  const Result<json::Json> page = json::ParseDocument(*listing);
  if (page.ok() && page->is_object()) {
    line.verdict = json::TextOf(json::Member(*page, "verdict"));
    if (const std::string where = TitleIn(*page); !where.empty()) {
      line.made_by = line.text;
      line.text = fmt::format("it starts with {}", where);
    }
  }
  return true;
}

}  // namespace

Site::Site(Folder folder, std::string token, std::string listened_host)
    : folder_(std::move(folder)),
      token_(std::move(token)),
      listened_host_(std::move(listened_host)) {}

Response Site::Error(int status, std::string_view title, const Status& why) {
  const std::string nonce = NewToken();
  return {.status = status,
          .policy = PolicyOf(nonce),
          .body = ErrorPage(title, why.message(), why.hint(), nonce)};
}

Response Site::Answer(const Request& request) {
  if (const std::string_view refused = WhyRefused(request.headers, listened_host_);
      !refused.empty()) {
    return Error(403, "Refused", NotFoundError(std::string(refused)));
  }
  std::string_view rest = request.path;
  if (!rest.empty()) {
    rest.remove_prefix(1);
  }
  const size_t slash = rest.find('/');
  if (!IsSameToken(rest.substr(0, slash), token_)) {
    return Error(403, "Refused",
                 NotFoundError("the address lacks the token of this server, or has another one")
                     .WithHint("use the address that msprobe serve printed when it started"));
  }
  if (slash == std::string_view::npos) {
    return {.status = 302, .location = "/" + token_ + "/"};
  }
  rest.remove_prefix(slash + 1);
  if (rest.empty()) {
    return List(request.headers.accept_language.starts_with("zh") ? Language::kChinese
                                                                  : Language::kEnglish);
  }
  if (rest.starts_with(kFiles)) {
    rest.remove_prefix(kFiles.size());
    if (const std::optional<FileKind> kind = KindOf(rest)) {
      const std::string path(rest);
      Result<base::InputFile> file = folder_.OpenRegular(path);
      if (file.ok()) {
        if (*kind == FileKind::kGraph) {
          return Graph(path, *std::move(file), request.query);
        }
        return {.policy = kForeignPagePolicy, .body = *std::move(file)};
      }
      if (file.status().code() != StatusCode::kNotFound) {
        return Error(503, "This file cannot be opened now", file.status());
      }
    }
  }
  return Error(
      404, "Not found",
      NotFoundError("no graph (.vis.db) or page (.html) of the served folder has this name"));
}

IndexLine Site::LineOf(const Folder::Entry& entry, base::InputFile file) {
  const std::string key = entry.path + "\n" + file.identity();
  if (const auto known = lines_.find(key); known != lines_.end()) {
    return known->second;
  }
  IndexLine line;
  line.path = entry.path;
  line.changed = entry.changed;
  const bool stays = entry.kind == FileKind::kGraph ? DescribeGraph(std::move(file), line)
                                                    : DescribePage(file, line);
  if (!stays) {
    return line;
  }
  if (lines_.size() >= 2 * Folder::kMostFiles) {
    lines_.clear();
  }
  return lines_[key] = line;
}

Response Site::List(Language language) {
  Folder::Listing listing = folder_.List();
  std::vector<IndexLine> lines;
  for (const Folder::Entry& entry : listing.entries) {
    Result<base::InputFile> file = folder_.OpenRegular(entry.path);
    if (file.ok()) {
      lines.push_back(LineOf(entry, *std::move(file)));
    } else if (file.status().code() != StatusCode::kNotFound) {  // that one has gone meanwhile
      listing.unread.push_back(file.status().message());
    }
  }
  const std::string nonce = NewToken();
  return {.policy = PolicyOf(nonce),
          .body = IndexPage(folder_.path().string(), lines, listing, nonce, language)};
}

Response Site::Shell(const std::string& path, base::InputFile file) {
  // A file that is not a graph is reported in words, before a script asks for its parts.
  if (Status available = GraphPage::Available(); !available.ok()) {
    return Error(422, "No page", available);
  }
  if (const Result<Bytes> listing = Part(path, std::move(file), "run"); !listing.ok()) {
    return Error(422, "This graph cannot be read", listing.status());
  }
  const std::string_view shell = GraphPage::Shell();
  const size_t begin = shell.find(kPolicyBegin);
  const size_t end = begin == std::string_view::npos ? begin : shell.find("\">", begin);
  const size_t mark = shell.find(report::kPageDataMark);
  if (end == std::string_view::npos || mark == std::string_view::npos || mark < end) {
    return Error(422, "No page",
                 InternalError("the page's shell has no policy or no place for data"));
  }
  // The policy of the page itself allows no connection; the one of the answer is in its place.
  return {.policy = fmt::format(
              "{}; connect-src 'self'; frame-ancestors 'none'",
              shell.substr(begin + kPolicyBegin.size(), end - begin - kPolicyBegin.size())),
          .body = fmt::format("{}{}<meta name=\"msprobe-parts\" content=\"?\">{}",
                              shell.substr(0, begin), shell.substr(end + 2, mark - end - 2),
                              shell.substr(mark + report::kPageDataMark.size()))};
}

Response Site::Graph(const std::string& path, base::InputFile file, std::string_view part) {
  if (part.empty()) {
    return Shell(path, std::move(file));
  }
  Result<Bytes> bytes = Part(path, std::move(file), part);
  if (!bytes.ok()) {
    return {.status = 422,
            .type = "text/plain; charset=utf-8",
            .body = std::string(bytes.status().message())};
  }
  if (*bytes == nullptr) {
    return Error(404, "Not found", NotFoundError(fmt::format("{} has no part of this name", path)));
  }
  return {.type = "application/octet-stream", .body = *std::move(bytes)};
}

Result<Site::Bytes> Site::Part(const std::string& path, base::InputFile file,
                               std::string_view part) {
  const std::optional<PartName> name = ParsePartName(part);
  if (!name && part != "run") {
    return Bytes();
  }
  const std::string key =
      fmt::format("{}\n{}\n{}", path, file.identity(),
                  !name ? "run" : fmt::format("{} {}", name->rank, name->of_tensors));
  auto known = std::find_if(cache_.begin(), cache_.end(),
                            [&key](const Cached& cached) { return cached.key == key; });
  if (known == cache_.end()) {
    MSP_ASSIGN_OR_RETURN(const StoredGraph graph, StoredGraph::Open(std::move(file)));
    PageParts parts;
    if (!name) {
      MSP_ASSIGN_OR_RETURN(const base::Descriptor folder, folder_.OpenFolderOf(path));
      parts["run"] = graph.Listing(
          report::PageBeside(folder.get(), ".", std::string_view(path).substr(path.rfind('/') + 1),
                             "msprobe compare"));
    } else if (name->rank >= graph.ranks().size()) {
      return Bytes();
    } else if (name->of_tensors) {
      MSP_ASSIGN_OR_RETURN(parts, graph.Tensors(name->rank));
    } else {
      MSP_ASSIGN_OR_RETURN(parts, graph.Tree(name->rank));
    }
    std::list<Cached> added(1);  // whole, or not kept
    added.front().key = key;
    for (auto& [part_name, bytes] : parts) {
      added.front().bytes += bytes.size();
      added.front().parts[part_name] = std::make_shared<const std::string>(std::move(bytes));
    }
    cache_.splice(cache_.begin(), added);
    known = cache_.begin();
  }
  cache_.splice(cache_.begin(), cache_, known);
  uint64_t total = 0;
  for (auto kept = cache_.begin(); kept != cache_.end();) {
    total += kept->bytes;
    kept =
        kept != cache_.begin() && total > kMostCachedBytes ? cache_.erase(kept) : std::next(kept);
  }
  const auto found = cache_.front().parts.find(part);
  return found == cache_.front().parts.end() ? Bytes() : found->second;
}

}  // namespace msprobe::serve
