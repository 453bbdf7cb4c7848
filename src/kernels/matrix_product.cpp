#include "src/kernels/matrix_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "src/kernels/kernel_table.h"
#include "src/kernels/transpose.h"

namespace msprobe::kernels {
namespace {

using internal::kMaxTileElements;
using internal::ProductTile;

// A panel of b, 48 KiB of the widest tile, and a block of a, 192 KiB, stay in the L2 cache, a block
// of b in the L3 cache, 3 MiB. Fewer steps of depth at a time would fit into the L1 cache, but read
// and write c more often.
constexpr size_t kBlockDepth = 256;
constexpr size_t kBlockRows = 96;
constexpr size_t kBlockColumns = 1536;  // a multiple of all tiles
constexpr size_t kAlignment = 64;
constexpr size_t kLine = kAlignment / sizeof(double);  // of a cache, in elements
// Below this many multiplications the work is not worth waking a thread.
constexpr size_t kOneThreadBelow = size_t{1} << 18U;

struct FreePanel {
  void operator()(double* panel) const { std::free(panel); }
};
using Panel = std::unique_ptr<double[], FreePanel>;

Panel MakePanel(size_t elements) {
  const size_t bytes = (elements * sizeof(double) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, std::max(bytes, kAlignment));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return Panel(static_cast<double*>(memory));
}

size_t RoundUp(size_t value, size_t step) { return (value + step - 1) / step * step; }

// Lines that lie side by side, as columns of a row-major b do.
void PackNeighbours(const double* source, size_t depth_stride, size_t depth, size_t count,
                    size_t width, double* out) {
  // The next rows lie on pages of their own, which no processor fetches beforehand by itself.
  constexpr size_t kAhead = 8;
  for (size_t p = 0; p < depth; ++p) {
    if (p + kAhead < depth) {
      for (size_t j = 0; j < count; j += kLine) {
        __builtin_prefetch(source + kAhead * depth_stride + j);
      }
    }
    std::copy_n(source, count, out);
    source += depth_stride;
    out += width;
  }
}

// `lines` rows of a (or columns of b), `width` at a time side by side, filled up with zeros.
void Pack(const double* data, size_t line_stride, size_t depth_stride, size_t lines, size_t depth,
          size_t width, double* out) {
  for (size_t first = 0; first < lines; first += width, out += width * depth) {
    const size_t count = std::min(width, lines - first);
    const double* base = data + first * line_stride;
    if (count < width) {
      std::fill_n(out, width * depth, 0.0);
    }
    if (line_stride == 1) {
      PackNeighbours(base, depth_stride, depth, count, width, out);
    } else if (depth_stride == 1) {
      TransposeMatrix(sizeof(double), reinterpret_cast<const std::byte*>(base),
                      static_cast<int64_t>(line_stride), reinterpret_cast<std::byte*>(out),
                      static_cast<int64_t>(width), static_cast<int64_t>(count),
                      static_cast<int64_t>(depth));
    } else {
      for (size_t p = 0; p < depth; ++p) {
        for (size_t i = 0; i < count; ++i) {
          out[p * width + i] = base[i * line_stride + p * depth_stride];
        }
      }
    }
  }
}

struct Block {
  size_t rows, columns, depth;  // of this block
  const double* a;              // packed
  const double* b;
  double* c;  // of its first element
  size_t c_stride;
  bool from_zero;  // nothing stands in c yet
};

// A tile waits for what stands in c: it is on its way while the tile before is computed.
void Prefetch(const double* c, size_t c_stride, size_t rows, size_t columns) {
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; j += kLine) {
      __builtin_prefetch(c + i * c_stride + j, /*rw=*/1);
    }
  }
}

void AddBlock(const ProductTile& tile, const Block& block) {
  alignas(kAlignment) double sums[kMaxTileElements];
  for (size_t j = 0; j < block.columns; j += tile.columns) {
    const size_t columns = std::min(tile.columns, block.columns - j);
    const double* b = block.b + j * block.depth;
    for (size_t i = 0; i < block.rows; i += tile.rows) {
      const size_t rows = std::min(tile.rows, block.rows - i);
      const double* a = block.a + i * block.depth;
      double* c = block.c + i * block.c_stride + j;
      if (!block.from_zero && i + 2 * tile.rows <= block.rows) {
        Prefetch(c + tile.rows * block.c_stride, block.c_stride, tile.rows, columns);
      }
      if (rows == tile.rows && columns == tile.columns) {
        tile.add(block.depth, a, b, c, block.c_stride, block.from_zero);
        continue;
      }
      // At the edges of c, where a tile would reach beyond.
      std::fill(sums, sums + tile.rows * tile.columns, 0.0);
      for (size_t r = 0; !block.from_zero && r < rows; ++r) {
        std::copy(c + r * block.c_stride, c + r * block.c_stride + columns,
                  sums + r * tile.columns);
      }
      tile.add(block.depth, a, b, sums, tile.columns, /*from_zero=*/false);
      for (size_t r = 0; r < rows; ++r) {
        std::copy(sums + r * tile.columns, sums + r * tile.columns + columns,
                  c + r * block.c_stride);
      }
    }
  }
}

}  // namespace

void MultiplyMatrices(size_t rows, size_t columns, size_t depth, const MatrixView& a,
                      const MatrixView& b, double* c, base::ThreadPool& pool) {
  if (rows == 0 || columns == 0 || depth == 0) {
    std::fill(c, c + rows * columns, 0.0);
    return;
  }
  const ProductTile tile = internal::ActiveTable().product;
  // Blocks of one width: a narrow last one would have all of a packed for a few columns.
  const size_t blocks = (columns + kBlockColumns - 1) / kBlockColumns;
  const size_t block_columns = RoundUp((columns + blocks - 1) / blocks, tile.columns);
  const Panel packed_b = MakePanel(block_columns * kBlockDepth);
  std::vector<Panel> packed_a(pool.thread_count());
  const auto each = [&](size_t count, const auto& body) {
    if (rows * columns * depth < kOneThreadBelow || count == 1) {
      for (size_t item = 0; item < count; ++item) {
        body(item, 0);
      }
    } else {
      pool.ParallelFor(count, body);
    }
  };
  for (size_t first_column = 0; first_column < columns; first_column += block_columns) {
    const size_t wide = std::min(block_columns, columns - first_column);
    for (size_t first_depth = 0; first_depth < depth; first_depth += kBlockDepth) {
      const size_t deep = std::min(kBlockDepth, depth - first_depth);
      each((wide + tile.columns - 1) / tile.columns, [&](size_t panel, size_t) {
        const size_t at = panel * tile.columns;
        Pack(b.data + first_depth * b.row_stride + (first_column + at) * b.column_stride,
             b.column_stride, b.row_stride, std::min(tile.columns, wide - at), deep, tile.columns,
             packed_b.get() + at * deep);
      });
      each((rows + kBlockRows - 1) / kBlockRows, [&](size_t number, size_t worker) {
        const size_t first_row = number * kBlockRows;
        const size_t high = std::min(kBlockRows, rows - first_row);
        Panel& panel = packed_a[worker];
        if (panel == nullptr) {
          panel = MakePanel(RoundUp(kBlockRows, tile.rows) * kBlockDepth);
        }
        Pack(a.data + first_row * a.row_stride + first_depth * a.column_stride, a.row_stride,
             a.column_stride, high, deep, tile.rows, panel.get());
        AddBlock(tile, {high, wide, deep, panel.get(), packed_b.get(),
                        c + first_row * columns + first_column, columns, first_depth == 0});
      });
    }
  }
}

}  // namespace msprobe::kernels
