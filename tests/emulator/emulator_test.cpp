// The emulator itself: it must find what it is there to find.
#include "emulator/emulator.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "harness/message_of.h"
#include "kernels/device/mma.cuh"
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/memory.h"

namespace kvcal::cuda {
namespace {

using emulator::Order;
constexpr Order kOrders[] = {Order::Ascending, Order::Descending, Order::Shuffled};
constexpr int kThreads = 64;

template <class F>
void in_every_order(F&& f) {
  for (const Order order : kOrders) {
    emulator::set_order(order);
    f();
  }
  emulator::set_order(Order::Ascending);
}

/// step: which neighbour is read. With `barrier` false this is the bug that the orders are for.
template <int step, bool barrier>
void neighbour_kernel(int* out) {
  KVCAL_SHARED(int, value, kThreads);
  const auto i = static_cast<int>(threadIdx.x);
  value[i] = i;
  if (barrier) __syncthreads();
  out[i] = value[(i + step + kThreads) % kThreads];
}

template <int step, bool barrier>
bool reads_its_neighbour() {
  std::vector<int> out(kThreads);
  launch(KVCAL_KERNEL(neighbour_kernel<step, barrier>), dim3(1), dim3(kThreads), 0, nullptr, out.data());
  for (int i = 1; i + 1 < kThreads; ++i)  // but for the ends, which read around the corner
    if (out[static_cast<size_t>(i)] != i + step) return false;
  return true;
}

TEST(Emulator, AMissingBarrierShowsInSomeOrder) {
  in_every_order([&] {
    EXPECT_TRUE((reads_its_neighbour<1, true>()));
    EXPECT_TRUE((reads_its_neighbour<-1, true>()));
  });
  const auto seen = [](Order order) {
    emulator::set_order(order);
    return std::pair(!reads_its_neighbour<1, false>(), !reads_its_neighbour<-1, false>());
  };
  EXPECT_EQ(seen(Order::Ascending), std::pair(true, false));  // one plain order alone would miss the other bug
  EXPECT_EQ(seen(Order::Descending), std::pair(false, true));
  EXPECT_EQ(seen(Order::Shuffled), std::pair(true, true));
  emulator::set_order(Order::Ascending);
}

/// Each warp reads what the next one writes; a warp operation between is no barrier.
template <bool barrier>
void next_warp_kernel(float* out) {
  KVCAL_SHARED(float, value, kThreads);
  value[threadIdx.x] = 1.0f;
  const float ones = warp_reduce(1.0f, Sum());
  if (barrier) __syncthreads();
  out[threadIdx.x] = ones * value[(threadIdx.x + kWarp) % kThreads];
}

TEST(Emulator, AWarpOperationIsNoBarrier) {
  in_every_order([] {
    const auto right = [](auto kernel) {
      std::vector<float> out(kThreads);
      launch(kernel, dim3(1), dim3(kThreads), 0, nullptr, out.data());
      return out == std::vector<float>(kThreads, 32.0f);
    };
    EXPECT_TRUE(right(KVCAL_KERNEL(next_warp_kernel<true>)));
    EXPECT_FALSE(right(KVCAL_KERNEL(next_warp_kernel<false>)));
  });
}

/// Writes one slot per block, reads what the block before may have left.
void stale_kernel(float* out) {
  KVCAL_SHARED(float, slot, 1);
  float* dynamic = dynamic_shared<float>();
  out[2 * blockIdx.x] = slot[0];
  out[2 * blockIdx.x + 1] = dynamic[3];
  slot[0] = dynamic[3] = 7.0f;
}

TEST(Emulator, SharedMemoryIsPoisonedForEveryBlock) {
  std::vector<float> out(6);
  launch(KVCAL_KERNEL(stale_kernel), dim3(3), dim3(1), 16, nullptr, out.data());
  for (const float x : out) EXPECT_TRUE(std::isnan(x)) << x;
  const DeviceBytes fresh = allocate_bytes(4);
  EXPECT_TRUE(std::isnan(*static_cast<float*>(fresh.get())));
}

void index_kernel(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * 24 + thread] += static_cast<int>(block * 24 + thread);
}

TEST(Emulator, EveryThreadOfEveryBlockRunsOnce) {
  in_every_order([] {
    std::vector<int> out(size_t{24} * 12), expected(out.size());
    launch(KVCAL_KERNEL(index_kernel), dim3(3, 2, 2), dim3(4, 3, 2), 0, nullptr, out.data());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(out, expected);
  });
}

void divergent_barrier_kernel() {
  if (threadIdx.x < 5) __syncthreads();
}
void lonely_lane_kernel(float* out) {
  if (threadIdx.x != 3) out[threadIdx.x] = __shfl_xor_sync(kAllLanes, 1.0f, 1);
}
void throwing_kernel() {
  if (threadIdx.x == 9) throw std::runtime_error("from a thread");
  __syncthreads();
}
void unfinished_copy_kernel(float* to, const float* from) { copy_async(to, from, 16); }

TEST(Emulator, WhatCannotEndIsAnError) {
  std::vector<float> out(32);
  in_every_order([&] {
    EXPECT_THROW(launch(KVCAL_KERNEL(divergent_barrier_kernel), dim3(1), dim3(32), 0, nullptr), std::logic_error);
    EXPECT_THROW(launch(KVCAL_KERNEL(lonely_lane_kernel), dim3(1), dim3(32), 0, nullptr, out.data()), std::logic_error);
    EXPECT_THROW(launch(KVCAL_KERNEL(throwing_kernel), dim3(1), dim3(32), 0, nullptr), std::runtime_error);
    EXPECT_THROW(launch(KVCAL_KERNEL(unfinished_copy_kernel), dim3(1), dim3(1), 0, nullptr, out.data(), out.data() + 8),
                 std::logic_error);
    EXPECT_TRUE((reads_its_neighbour<1, true>()));  // none of it is left behind
  });
}

template <int kRowThreads>
void sum_kernel(const float* x, float* out) {
  const float total = row_reduce<kRowThreads>(x[threadIdx.x], Sum());
  const float largest = row_reduce<kRowThreads>(x[threadIdx.x], Maximum());
  out[threadIdx.x] = total + 1000.0f * largest;
}

TEST(Emulator, ReductionsReachEveryThread) {
  std::vector<float> x(256);
  std::iota(x.begin(), x.end(), 1.0f);
  in_every_order([&] {
    std::vector<float> out(256);
    launch(KVCAL_KERNEL(sum_kernel<256>), dim3(1), dim3(256), 0, nullptr, x.data(), out.data());
    EXPECT_EQ(out, std::vector<float>(256, 256 * 257 / 2 + 256000.0f));
    launch(KVCAL_KERNEL(sum_kernel<32>), dim3(1), dim3(32), 0, nullptr, x.data(), out.data());
    EXPECT_EQ(out[31], 32 * 33 / 2 + 32000.0f);
  });
}

void count_kernel(unsigned long long* count, int* largest) {
  atomicAdd(count, 2ULL);
  atomicMax(largest, static_cast<int>(threadIdx.x * 7 % 32));
}

TEST(Emulator, AtomicsAndLaunchCounts) {
  const int64_t before = emulator::launches().count("count_kernel") ? emulator::launches().at("count_kernel") : 0;
  unsigned long long count = 0;
  int largest = 0;
  launch(KVCAL_KERNEL(count_kernel), dim3(5), dim3(32), 0, nullptr, &count, &largest);
  EXPECT_EQ(count, 320U);
  EXPECT_EQ(largest, 31);
  EXPECT_EQ(emulator::launches().at("count_kernel"), before + 1);
  launch(KVCAL_KERNEL(count_kernel), dim3(0), dim3(32), 0, nullptr, &count, &largest);  // nothing to do
  EXPECT_EQ(emulator::launches().at("count_kernel"), before + 1);
}

/// Shared memory that can be copied to 16 bytes at a time.
template <class T, int n>
struct alignas(16) Slab {
  T values[n];
};

/// c [16, 8] = a [16, 16] b [16, 8], b stored by rows: the way attention uses the instructions.
void tile_kernel(const bf16* a, const bf16* b, float* c) {
  using Rows = Slab<bf16, 32 * 16>;
  KVCAL_SHARED(Rows, rows, 1);
  bf16* const tile = rows[0].values;
  const unsigned lane = threadIdx.x;
  for (unsigned i = lane; i < 64; i += kWarp) copy_async(tile + 8 * i, (i < 32 ? a : b - 256) + 8 * i, i < 48 ? 16 : 0);
  commit_copies();
  wait_copies<0>();
  __syncthreads();
  uint32_t left[4], right[4];
  load_matrices(left, tile + lane % 16 * 16 + lane / 16 * 8);
  load_matrices_transposed(right, tile + 256 + lane % 16 * 8);  // lanes above 15 repeat: only two matrices are used
  float sums[4] = {};
  multiply_add(sums, left, {right[0], right[1]});
  const unsigned g = lane / 4, t = lane % 4;
  for (unsigned i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
}

TEST(Emulator, MatrixInstructionsMultiply) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<bf16> a(256), b(128);
  for (auto* m : {&a, &b})
    for (bf16& x : *m) x = to_bf16(normal(random));
  in_every_order([&] {
    std::vector<float> c(128);
    launch(KVCAL_KERNEL(tile_kernel), dim3(1), dim3(32), 0, nullptr, a.data(), b.data(), c.data());
    for (size_t i = 0; i < 16; ++i)
      for (size_t j = 0; j < 8; ++j) {
        double sum = 0;
        for (size_t k = 0; k < 16; ++k) sum += double{to_float(a[i * 16 + k])} * double{to_float(b[k * 8 + j])};
        EXPECT_NEAR(c[i * 8 + j], sum, 1e-5) << i << ", " << j;
      }
  });
}

/// Reads before or after it waits.
void early_kernel(const float* from, float* out, bool early) {
  using Eight = Slab<float, 8>;
  KVCAL_SHARED(Eight, slab, 1);
  float* const value = slab[0].values;
  copy_async(value, from, 16);
  commit_copies();
  copy_async(value + 4, from + 4, 8);
  commit_copies();
  if (!early) wait_copies<1>();
  for (int i = 0; i < 8; ++i) out[i] = value[i];
  wait_copies<0>();
  for (int i = 4; i < 8; ++i) out[i + 4] = value[i];
}

TEST(Emulator, ACopyArrivesWhenItIsWaitedFor) {
  std::vector<float> from(8, 2.0f), out(12);
  launch(KVCAL_KERNEL(early_kernel), dim3(1), dim3(1), 0, nullptr, from.data(), out.data(), true);
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[4]));
  launch(KVCAL_KERNEL(early_kernel), dim3(1), dim3(1), 0, nullptr, from.data(), out.data(), false);
  EXPECT_EQ(out[3], 2.0f);
  EXPECT_TRUE(std::isnan(out[4]));
  EXPECT_EQ((std::vector<float>(out.begin() + 8, out.end())), (std::vector<float>{2, 2, 0, 0}));
}

void convert_kernel(const float* x, bf16* y) { y[threadIdx.x] = narrow<bf16>(x[threadIdx.x]); }

TEST(Device, Bf16IsRoundedAsOnTheHost) {
  const std::vector<float> x = {1.0f,   0x1.01p0f, 0x1.03p0f, 0x1.018p0f, 3e38f, 3.4e38f,         -0.0f,
                                1e-40f, 1e-45f,    INFINITY,  -INFINITY,  NAN,   0x1.fffffep127f, -2.5f};
  std::vector<bf16> y(x.size());
  launch(KVCAL_KERNEL(convert_kernel), dim3(1), dim3(static_cast<unsigned>(x.size())), 0, nullptr, x.data(), y.data());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i].bits, to_bf16(x[i]).bits) << x[i];
}

TEST(Runtime, ErrorsNameKernelExtentsAndDevice) {
  EXPECT_EQ(message_of([] { launch(KVCAL_KERNEL(divergent_barrier_kernel), dim3(2), dim3(2048), 99, nullptr); }),
            "launching divergent_barrier_kernel with 2 x 1 x 1 blocks of 2048 x 1 x 1 threads and 99 bytes of shared "
            "memory on device 0 (emulated GPU): invalid configuration argument (cudaErrorInvalidConfiguration)");
  EXPECT_EQ(message_of([] { allocate_bytes(size_t{1} << 60); }),
            "allocating 1152921504606846976 bytes on device 0 (emulated GPU): out of memory "
            "(cudaErrorMemoryAllocation); 8192 of 8192 MiB are free, perhaps another program uses the device");
  EXPECT_NE(message_of([] { n_blocks(int64_t{1} << 40, 32); }).find("smaller batches"), std::string::npos);
  EXPECT_EQ(n_blocks(0, 32), 0U);
  EXPECT_EQ(n_blocks(33, 32), 2U);
}

TEST(Runtime, TheArenaReusesAndPoisons) {
  DeviceArena arena(nullptr, 4096);
  arena.poison_on_reset(true);
  const Tensor a = arena.allocate({100}, DType::F32), b = arena.allocate({3}, DType::BF16);
  EXPECT_EQ(a.device, Device::Cuda);
  EXPECT_EQ(static_cast<char*>(b.data) - static_cast<char*>(a.data), 512 + 256);
  const Tensor large = arena.allocate({5000}, DType::F32);  // a block of its own
  std::fill_n(static_cast<float*>(a.data), 100, 1.0f);
  std::fill_n(static_cast<float*>(large.data), 5000, 1.0f);
  arena.reset();
  const Tensor again = arena.allocate({100}, DType::F32);
  EXPECT_EQ(again.data, a.data);
  EXPECT_TRUE(std::isnan(*static_cast<float*>(again.data)));
}

TEST(Runtime, TheArenaSeesWhatIsStoredBehindATensor) {
  DeviceArena arena(nullptr, 4096);
  arena.poison_on_reset(true);
  const auto store_behind = [&](int64_t n) {
    const Tensor t = arena.allocate({n}, DType::F32);
    std::fill_n(static_cast<float*>(t.data), n + 1, 1.0f);
  };
  for (const int64_t n : {100, 128}) {
    store_behind(n);
    EXPECT_EQ(message_of([&] { arena.reset(); }),
              "something was stored past the end of F32 [" + std::to_string(n) + "]");
  }
  const DeviceArena::Position before = arena.position();
  store_behind(7);
  EXPECT_NE(message_of([&] { arena.release(before); }), "no error");
  EXPECT_EQ(message_of([&] { arena.reset(); }), "no error");
}

}  // namespace
}  // namespace kvcal::cuda
