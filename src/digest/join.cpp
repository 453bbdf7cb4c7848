// The digests of ranks as that of one model.
//
// Ranks that hold the same boxes of a parameter hold copies, which must have the same sums; other
// boxes are parts, whose sums add up. Boxes of one holder that lie in another's are refused: an
// element would count twice. What no rank holds is noted by blocks, so that a lost shard has rows.
#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/digest/digest.h"

namespace msprobe::digest {
namespace {

// One set of boxes and who holds it.
struct Part {
  const Entry* entry = nullptr;
  std::vector<int64_t> ranks;
};

struct Holders {
  const Entry* first = nullptr;
  std::vector<Part> parts;
  std::string problem;
  std::optional<std::pair<size_t, size_t>> unequal;
  std::string note;
};

void Extend(std::optional<std::pair<size_t, size_t>>& range, size_t block) {
  range = range ? std::pair(std::min(range->first, block), std::max(range->second, block))
                : std::pair(block, block);
}

void AddHolder(const Entry& entry, int64_t rank, Holders& holders) {
  if (holders.first == nullptr) {
    holders.first = &entry;
  }
  const Entry& first = *holders.first;
  if (!entry.problem.empty()) {
    holders.problem = entry.problem;
    return;
  }
  if (entry.shape != first.shape || entry.kind != first.kind) {
    holders.problem =
        fmt::format("ranks contradict each other: shapes {} and {}, ranks {} and {}",
                    ShapeText(first.shape), ShapeText(entry.shape),
                    holders.parts.empty() ? rank : holders.parts.front().ranks.front(), rank);
    return;
  }
  if (entry.boxes.empty() && ElementCount(entry.shape) > 0) {
    return;  // a rank that has no share of it
  }
  for (Part& part : holders.parts) {
    if (part.entry->boxes != entry.boxes) {
      continue;
    }
    for (size_t block = 0; block < entry.blocks.size(); ++block) {
      if (entry.blocks[block] != part.entry->blocks[block]) {
        Extend(holders.unequal, block);
      }
    }
    if (!holders.unequal && entry.total != part.entry->total) {
      holders.unequal = std::pair<size_t, size_t>(0, entry.blocks.size() - 1);
    }
    if (holders.unequal && holders.note.empty()) {
      holders.note = fmt::format("ranks {} and {} hold different copies", part.ranks.front(), rank);
    }
    part.ranks.push_back(rank);
    return;
  }
  holders.parts.push_back({&entry, {rank}});
}

int64_t RowsOfBox(const Box& box) { return box.shape.empty() ? 1 : box.shape[0]; }

// Elements of each block that boxes hold.
std::vector<int64_t> HeldPerBlock(const Entry& entry, const std::vector<Part>& parts) {
  std::vector<int64_t> held(entry.blocks.size(), 0);
  const int64_t block_rows = BlockRows(entry.rows());
  for (const Part& part : parts) {
    for (const Box& box : part.entry->boxes) {
      const int64_t row_elements = ElementCount(box.shape) / RowsOfBox(box);
      const int64_t end = (box.offset.empty() ? 0 : box.offset[0]) + RowsOfBox(box);
      for (int64_t row = box.offset.empty() ? 0 : box.offset[0]; row < end;) {
        const int64_t next = std::min((row / block_rows + 1) * block_rows, end);
        // Forged boxes may repeat without end: a sum that is too large stays so.
        int64_t& sum = held[static_cast<size_t>(row / block_rows)];
        if (__builtin_add_overflow(sum, (next - row) * row_elements, &sum)) {
          sum = INT64_MAX;
        }
        row = next;
      }
    }
  }
  return held;
}

// Whether all elements are held once, by a sum of random volumes (see checkpoint::CheckTiling).
Status CheckOnce(const Entry& entry, const std::vector<Part>& parts) {
  checkpoint::Parameter all;
  all.name = entry.name;
  all.shape = entry.shape;
  for (const Part& part : parts) {
    for (const Box& box : part.entry->boxes) {
      checkpoint::Piece piece;
      piece.view.shape = box.shape;
      piece.offset = box.offset;
      all.pieces.push_back(std::move(piece));
    }
  }
  return checkpoint::CheckTiling(all);
}

Whole Summed(Holders& holders) {
  Whole whole;
  Entry& entry = whole.entry = *holders.first;
  entry.boxes.clear();
  entry.problem = holders.problem;
  whole.unequal_blocks = holders.unequal;
  whole.note = holders.note;
  if (!entry.problem.empty()) {
    return whole;
  }
  std::fill(entry.blocks.begin(), entry.blocks.end(), 0);
  entry.total = 0;
  for (const Part& part : holders.parts) {
    for (size_t block = 0; block < entry.blocks.size(); ++block) {
      entry.blocks[block] += part.entry->blocks[block];
    }
    entry.total += part.entry->total;
  }
  if (ElementCount(entry.shape) == 0) {
    return whole;
  }
  const std::vector<int64_t> held = HeldPerBlock(entry, holders.parts);
  const int64_t block_rows = BlockRows(entry.rows());
  const int64_t row_elements = ElementCount(entry.shape) / entry.rows();
  for (size_t block = 0; block < held.size(); ++block) {
    const int64_t first = static_cast<int64_t>(block) * block_rows;
    const int64_t wanted = std::min(block_rows, entry.rows() - first) * row_elements;
    if (held[block] < wanted) {
      Extend(whole.missing_blocks, block);
    } else if (held[block] > wanted) {
      entry.problem = "ranks hold parts of it that overlap";
    }
  }
  if (entry.problem.empty() && !whole.missing_blocks) {
    if (const Status once = CheckOnce(entry, holders.parts); !once.ok()) {
      entry.problem = once.message();
    }
  }
  return whole;
}

}  // namespace

Result<Model> JoinRanks(std::vector<Digest> digests) {
  Model model;
  if (digests.empty()) {
    return NotFoundError("no digest");
  }
  model.cast = digests.front().cast;
  model.source = digests.front().source;
  model.world_size = digests.front().world_size;
  std::set<int64_t> seen;
  std::unordered_map<std::string, size_t> places;
  std::vector<Holders> all;
  for (const Digest& digest : digests) {
    if (digest.cast != model.cast || digest.world_size != model.world_size) {
      return MismatchError(
          "the digests of the ranks are not of one run: dtype or world_size differ");
    }
    const int64_t rank = digest.rank.value_or(0);
    if (!seen.insert(rank).second) {
      return MismatchError(fmt::format("rank {} is there twice", rank));
    }
    for (const Entry& entry : digest.entries) {
      const auto [place, is_new] = places.emplace(entry.part, all.size());
      if (is_new) {
        all.emplace_back();
      }
      AddHolder(entry, rank, all[place->second]);
    }
  }
  for (int64_t rank = 0; rank < model.world_size; ++rank) {
    if (!seen.contains(rank)) {
      model.missing_ranks.push_back(rank);
    }
  }
  for (Holders& holders : all) {
    model.wholes.push_back(Summed(holders));
  }
  if (model.world_size > 1) {
    model.source += fmt::format(", {} of {} ranks", seen.size(), model.world_size);
  }
  return model;
}

}  // namespace msprobe::digest
