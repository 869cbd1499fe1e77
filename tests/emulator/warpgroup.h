// Twins of the instructions in kernels/device/warpgroup.cuh. A product reads its operands, and adds to its sums, as
// late as it may: when it is waited for. So operands that are written too early, and sums that are read too early, give
// wrong numbers.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace emulator {

/// fence.proxy.async: without it, a product does not see what this thread's copies brought.
void show_to_products();
/// wgmma.fence
void open_products();
/// wgmma.mma_async, m64nNk16, bf16 x bf16 + f32: sums [64, columns] += x [64, 16] w [columns, 16]^T. The operands are
/// tiles of 64 columns, of which k to k + 15 are meant, at multiples of 1024 bytes, their parts of 16 bytes swapped by
/// row. Of 16 columns a thread has the sums that mma.m16n8k16 gives its lane; a warp has 16 of the rows.
void begin_product(float* sums, unsigned columns, const void* x, const void* w, unsigned k);
/// wgmma.commit_group
void commit_products();
/// wgmma.wait_group: completes all groups but the newest `pending`.
void wait_products(size_t pending);

// ---------------------------------------------------------------- of one thread

struct Product {
  float* sums;
  unsigned columns;
  const void *x, *w;
  unsigned k;
  const void* site;
};

struct ThreadProducts {
  bool shown = false, open = false;
  std::vector<Product> begun;               // not committed
  std::deque<std::vector<Product>> groups;  // oldest first

  bool waited_for() const { return begun.empty() && groups.empty(); }
};

/// Those of the running thread.
ThreadProducts& own_products();

}  // namespace emulator
