#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "tensor/arena.h"

namespace kvcal {
namespace {

TEST(Arena, tensors_are_aligned_and_do_not_overlap) {
  Arena arena(256);
  const Tensor a = arena.allocate({3}, DType::F32), b = arena.allocate({100}, DType::BF16);
  const Tensor c = arena.allocate({0, 7}, DType::F32);
  for (const Tensor& t : {a, b, c}) EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data) % 64, 0u);
  EXPECT_GE(static_cast<char*>(b.data), static_cast<char*>(a.data) + a.bytes());
  EXPECT_NE(c.data, nullptr) << "an empty tensor is present";
}

TEST(Arena, grows_beyond_a_block_and_comes_back_as_one) {
  Arena arena(1024);
  for (int i = 0; i < 10; ++i) arena.allocate({1000}, DType::U8);
  arena.reset();
  // What took ten blocks fits one piece now: the large tensor needs no further memory.
  const Tensor large = arena.allocate({10000}, DType::U8);
  EXPECT_EQ(large.bytes(), 10000u);
  EXPECT_LE(arena.peak_bytes(), 10240u);
}

TEST(Arena, poisoned_memory_reads_as_nan) {
  Arena arena(4096);
  arena.poison_on_reset(true);
  float* before = arena.allocate({16}, DType::F32).as<float>();
  for (int i = 0; i < 16; ++i) before[i] = 1;
  arena.reset();
  const float* after = arena.allocate({16}, DType::F32).as<float>();
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(std::isnan(after[i]));
}

TEST(Arena, poisoned_memory_shows_what_is_stored_behind_a_tensor) {
  Arena arena(4096);
  arena.poison_on_reset(true);
  for (const int64_t n : {15, 16}) {
    float* values = arena.allocate({n}, DType::F32).as<float>();
    values[n] = 1;
    EXPECT_THROW(arena.reset(), Error) << n;
  }
  arena.allocate({16}, DType::F32);
  EXPECT_NO_THROW(arena.reset());
}

}  // namespace
}  // namespace kvcal
