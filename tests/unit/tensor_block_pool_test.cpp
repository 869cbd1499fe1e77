#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "tensor/block_pool.h"
#include "tensor/tensor.h"

namespace kvcal {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

uintptr_t address(const BlockPool::Block& b) { return reinterpret_cast<uintptr_t>(b.memory); }

TEST(BlockPool, a_freed_block_serves_the_next_one_of_its_size) {
  BlockPool pool;
  const BlockPool::Block a = pool.take(8 * kMiB);
  std::memset(a.memory, 1, a.bytes);
  pool.give_back(a);
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_EQ(pool.kept(), 8 * kMiB);
  const BlockPool::Block b = pool.take(8 * kMiB - 100);
  EXPECT_EQ(b.memory, a.memory);
  EXPECT_EQ(pool.kept(), 0u);
  pool.give_back(b);
}

TEST(BlockPool, large_pages_where_they_waste_little_cache_lines_elsewhere) {
  BlockPool pool;
  for (const size_t bytes : {size_t{1}, size_t{100}, kMiB, 2 * kMiB, 3 * kMiB, 8 * kMiB - 1}) {
    const BlockPool::Block b = pool.take(bytes);
    EXPECT_GE(b.bytes, bytes);
    EXPECT_LE(b.bytes, bytes + std::max<size_t>(64, bytes / 8));
    EXPECT_EQ(address(b) % (b.bytes % (2 * kMiB) == 0 ? 2 * kMiB : 64), 0u) << bytes;
    pool.give_back(b);
  }
}

TEST(BlockPool, a_much_larger_block_is_not_spent_on_a_small_one) {
  BlockPool pool;
  pool.give_back(pool.take(16 * kMiB));
  const BlockPool::Block small = pool.take(4 * kMiB);
  EXPECT_EQ(small.bytes, 4 * kMiB);
  pool.give_back(small);
}

TEST(BlockPool, used_and_kept_are_never_more_than_was_once_used) {
  BlockPool pool;
  std::vector<BlockPool::Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.take(10 * kMiB));
  for (const BlockPool::Block& b : blocks) pool.give_back(b);
  EXPECT_EQ(pool.kept(), 40 * kMiB);
  const BlockPool::Block other = pool.take(24 * kMiB);  // nothing fits: as much is let go as it needs
  EXPECT_EQ(pool.in_use(), 24 * kMiB);
  EXPECT_EQ(pool.kept(), 10 * kMiB);
  const BlockPool::Block more = pool.take(30 * kMiB);
  EXPECT_EQ(pool.in_use(), 54 * kMiB);
  EXPECT_EQ(pool.kept(), 0u);
  pool.give_back(other);
  pool.give_back(more);
  EXPECT_EQ(pool.kept(), 54 * kMiB);
}

TEST(BlockPool, small_blocks_are_left_to_malloc) {
  BlockPool pool;
  pool.give_back(pool.take(kMiB / 2));
  EXPECT_EQ(pool.kept(), 0u);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(BlockPool, no_memory_gives_null_and_lets_everything_kept_go) {
#ifdef KVCAL_SANITIZED
  GTEST_SKIP() << "sanitizers stop at an allocation that is too large";
#endif
  BlockPool pool;
  pool.give_back(pool.take(4 * kMiB));
  EXPECT_EQ(pool.take(size_t{1} << 60).memory, nullptr);
  EXPECT_EQ(pool.kept(), 0u);
  EXPECT_EQ(pool.in_use(), 0u);
  const BlockPool::Block b = pool.take(4 * kMiB);
  EXPECT_NE(b.memory, nullptr);
  pool.give_back(b);
}

TEST(BlockPool, threads_get_blocks_of_their_own) {
  BlockPool pool;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 50; ++i) {
        const BlockPool::Block b = pool.take((1 + static_cast<size_t>(i) % 3) * kMiB);
        std::memset(b.memory, t, b.bytes);
        EXPECT_EQ(static_cast<const char*>(b.memory)[b.bytes - 1], t);
        pool.give_back(b);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(BlockPool, tensors_take_from_the_process_pool_and_give_back) {
  const size_t before = block_pool().in_use();
  {
    Storage a({2048, 1024}, DType::F32);
    EXPECT_EQ(block_pool().in_use(), before + 8 * kMiB);
    const Storage b = std::move(a);
    EXPECT_EQ(block_pool().in_use(), before + 8 * kMiB);
  }
  EXPECT_EQ(block_pool().in_use(), before);
}

}  // namespace
}  // namespace kvcal
