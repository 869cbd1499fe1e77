#include "kernels/runtime/grid.h"

#include "base/error.h"

namespace kvcal::cuda {
namespace {

std::string str(const dim3& d) {
  return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
}

}  // namespace

std::string describe_launch(const char* kernel, const dim3& grid, const dim3& block, size_t shared_bytes) {
  return "launching " + std::string(kernel) + " with " + str(grid) + " blocks of " + str(block) + " threads and " +
         std::to_string(shared_bytes) + " bytes of shared memory";
}

unsigned n_blocks(int64_t n, int64_t per_block) {
  constexpr int64_t kMost = 0x7FFFFFFF;
  const int64_t blocks = (n + per_block - 1) / per_block;
  if (n < 0 || blocks > kMost)
    fail("a kernel over " + std::to_string(n) + " items needs " + std::to_string(blocks) + " blocks, at most " +
         std::to_string(kMost) + " are possible: take smaller batches");
  return static_cast<unsigned>(blocks);
}

}  // namespace kvcal::cuda
