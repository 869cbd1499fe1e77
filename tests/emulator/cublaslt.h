// What tests may know of the stand-in for cuBLASLt: its algorithms, and what it did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace emulator {

/// Algorithms of the stand-in, by number (CUBLASLT_ALGO_CONFIG_ID).
struct ProductAlgorithm {
  enum Sums : uint8_t { Ascending, Descending, InParts } sums;  // equal bits for equal values
  double milliseconds;                                          // that a product takes on the emulated clock
  size_t workspace;                                             // bytes
  int64_t most_rows;                                            // that it can do
};

/// 1: proposed first for large products. 2: the same bits, faster. 3: faster still, other bits. 4: the fastest, sums in
/// parts with additions in any order, proposed although the mask forbids it. 5: as 1 and slower, for few rows only,
/// where it is proposed first with the bits of 3.
inline const std::map<int, ProductAlgorithm> kProductAlgorithms = {
    {1, {ProductAlgorithm::Ascending, 4.0, 0, int64_t{1} << 40}},
    {2, {ProductAlgorithm::Ascending, 3.0, size_t{1} << 20, int64_t{1} << 40}},
    {3, {ProductAlgorithm::Descending, 2.0, 0, int64_t{1} << 40}},
    {4, {ProductAlgorithm::InParts, 1.0, size_t{1} << 20, int64_t{1} << 40}},
    {5, {ProductAlgorithm::Descending, 1.5, 0, 16}},
};
constexpr int64_t kFewRows = 16;

/// How often each algorithm has run since the program began, and on how many rows all of them.
const std::map<int, int64_t>& products();
int64_t product_rows();

/// Proposes each algorithm so many times, as it would with other launches of the same kernel; products take so many
/// times as long.
void set_library(int variants, double slowness);

/// The next product fails with CUBLAS_STATUS_EXECUTION_FAILED.
void fail_next_product();

}  // namespace emulator
