// How scales lie over a weight.
#pragma once

#include <cstdint>

namespace kvcal {

/// How a tensor of scales lies over a weight [experts · out, in]. Scale (r, c) of expert e belongs to the rows
/// [r · rows, (r + 1) · rows) and columns [c · columns, (c + 1) · columns) of that expert; the last of each may be cut
/// off.
struct ScaleGrid {
  int64_t out, in;            // of one expert
  int64_t rows, columns;      // of a rectangle
  int64_t n_rows, n_columns;  // rectangles of one expert

  int64_t index(int64_t row, int64_t column) const {  // row counts through all experts
    return (row / out * n_rows + row % out / rows) * n_columns + column / columns;
  }
  int64_t size(int64_t experts) const { return experts * n_rows * n_columns; }
};

}  // namespace kvcal
