// The race checker: small kernels with one fault each, all of which it must report, and the same kernels without.
#include "emulator/race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "emulator/emulator.h"
#include "kernels/device/mma.cuh"
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/memory.h"

namespace kvcal::cuda {
namespace {

using Lines = std::vector<std::string>;

struct Launch {
  unsigned blocks = 1, threads = 64;
  size_t shared_bytes = 0;
};

template <class... P, class... A>
Lines findings_of(const Kernel<P...>& kernel, const Launch& l, const A&... arguments) {
  launch(kernel, dim3(l.blocks), dim3(l.threads), l.shared_bytes, nullptr, arguments...);
  return emulator::race::take_findings();
}

bool mentions(const Lines& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& l) { return l.find(text) != std::string::npos; });
}

std::string in_this_file(int line) { return "race_test.cpp:" + std::to_string(line); }

struct Array {  // of the device
  explicit Array(size_t n) : bytes(allocate_bytes(n * sizeof(float))) { std::fill_n(data(), n, 1.0f); }
  float* data() const { return static_cast<float*>(bytes.get()); }
  DeviceBytes bytes;
};

// ---------------------------------------------------------------- shared memory

constexpr int kThreads = 64;

enum class Between : uint8_t { Nothing, Shuffle, SyncWarp, HalfWarps, SyncThreads };

template <Between between>
__device__ void order() {
  if constexpr (between == Between::Shuffle) __shfl_xor_sync(kAllLanes, 1.0f, 1);
  if constexpr (between == Between::SyncWarp) __syncwarp();
  if constexpr (between == Between::HalfWarps) __syncwarp(0xFFFFu << (threadIdx.x & 16));
  if constexpr (between == Between::SyncThreads) __syncthreads();
}

constexpr int kLine = __LINE__;
/// Each thread reads what the one `step` further has written, six and eight lines below.
template <Between between>
__global__ void neighbour_kernel(float* out, int step) {
  KVCAL_SHARED(float, value, kThreads);
  const auto i = static_cast<int>(threadIdx.x);
  value[i] = 1.0f;
  order<between>();
  out[i] = value[i ^ step];
}

template <Between between>
Lines neighbours(int step) {
  const Array out(kThreads);
  return findings_of(KVCAL_KERNEL(neighbour_kernel<between>), {}, out.data(), step);
}

TEST(Races, AreFoundBetweenWarpsOfABlock) {
  EXPECT_EQ(neighbours<Between::SyncThreads>(32), Lines());
  EXPECT_EQ(neighbours<Between::Nothing>(0), Lines());  // its own
  for (const Lines& lines :
       {neighbours<Between::Nothing>(32), neighbours<Between::Shuffle>(32), neighbours<Between::SyncWarp>(32)}) {
    EXPECT_TRUE(mentions(lines, "shared memory, byte ")) << testing::PrintToString(lines);
    EXPECT_TRUE(mentions(lines, "no __syncthreads() between")) << testing::PrintToString(lines);
  }
}

TEST(Races, AreFoundInsideAWarp) {
  EXPECT_EQ(neighbours<Between::SyncThreads>(16), Lines());
  EXPECT_EQ(neighbours<Between::SyncWarp>(16), Lines());
  EXPECT_TRUE(mentions(neighbours<Between::Nothing>(16), "no __syncwarp() between"));
  EXPECT_TRUE(mentions(neighbours<Between::Shuffle>(16), "no __syncwarp() between"));  // which orders nothing
  EXPECT_EQ(neighbours<Between::HalfWarps>(8), Lines());
  EXPECT_TRUE(mentions(neighbours<Between::HalfWarps>(16), "no __syncwarp() between"));
}

/// Writes again what others may still be reading.
template <Between between>
__global__ void reuse_kernel(float* out) {
  KVCAL_SHARED(float, value, 1);
  if (threadIdx.x == 0) value[0] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = value[0];
  order<between>();
  if (threadIdx.x == 0) value[0] = 2.0f;
}

TEST(Races, AreFoundWhereMemoryIsUsedAgain) {
  const Array out(kThreads);
  EXPECT_EQ(findings_of(KVCAL_KERNEL(reuse_kernel<Between::SyncThreads>), {}, out.data()), Lines());
  EXPECT_EQ(findings_of(KVCAL_KERNEL(reuse_kernel<Between::SyncWarp>), {1, 32}, out.data()), Lines());
  EXPECT_TRUE(
      mentions(findings_of(KVCAL_KERNEL(reuse_kernel<Between::SyncWarp>), {}, out.data()), "no __syncthreads()"));
  EXPECT_TRUE(
      mentions(findings_of(KVCAL_KERNEL(reuse_kernel<Between::Nothing>), {1, 32}, out.data()), "no __syncwarp()"));
  // All have read it, the thread that writes among the first.
  EXPECT_TRUE(
      mentions(findings_of(KVCAL_KERNEL(reuse_kernel<Between::Shuffle>), {1, 32}, out.data()), "no __syncwarp()"));
}

/// Both kinds of shared memory, one value of which the block does not write.
__global__ void unwritten_kernel(float* out, bool written) {
  KVCAL_SHARED(float, value, 1);
  float* const dynamic = dynamic_shared<float>();
  if (written || blockIdx.x < 3) value[0] = dynamic[3] = 1.0f;
  out[2 * blockIdx.x] = value[0];
  out[2 * blockIdx.x + 1] = dynamic[3];
}

TEST(Races, SharedMemoryIsWrittenBeforeItIsRead) {
  const Array out(8);
  EXPECT_EQ(findings_of(KVCAL_KERNEL(unwritten_kernel), {4, 1, 16}, out.data(), true), Lines());
  const Lines lines = findings_of(KVCAL_KERNEL(unwritten_kernel), {4, 1, 16}, out.data(), false);
  EXPECT_EQ(lines.size(), 2U);  // what the blocks before have left is no value
  EXPECT_TRUE(mentions(lines, "shared memory, byte 12: thread 0 of block 3 reads")) << testing::PrintToString(lines);
  EXPECT_TRUE(mentions(lines, "what no thread of the block has written"));
}

// ---------------------------------------------------------------- global memory

enum class How : uint8_t { Write, Read, Atomic, Volatile };

__device__ void touch(float* at, float* out, How how) {
  if (how == How::Write) *at = 1.0f;
  if (how == How::Read) *out = *at;
  if (how == How::Atomic) atomicAdd(at, 1.0f);
  if (how == How::Volatile) *out = *static_cast<volatile const float*>(at);
}

/// One thread, or block, touches a value in one way, the other in another.
__global__ void touch_kernel(float* x, How first, How second, bool barrier) {
  touch(x, x + 8 + threadIdx.x + 32 * blockIdx.x, threadIdx.x + blockIdx.x == 0 ? first : second);
  if (barrier) __syncthreads();
  if (barrier && threadIdx.x == 0) touch(x, x + 8, How::Read);
}

TEST(Races, AreFoundInGlobalMemory) {
  const Array x(128);
  struct Case {
    How first, second;
    bool conflict;
  };
  for (const Case& c : {Case{How::Write, How::Write, true},
                        {How::Write, How::Read, true},
                        {How::Read, How::Write, true},
                        {How::Read, How::Read, false},
                        {How::Atomic, How::Atomic, false},
                        {How::Atomic, How::Write, true},
                        {How::Read, How::Atomic, true},
                        {How::Volatile, How::Atomic, false},
                        {How::Atomic, How::Volatile, false},
                        {How::Volatile, How::Write, true}}) {
    const Lines in_block = findings_of(KVCAL_KERNEL(touch_kernel), {1, 2}, x.data(), c.first, c.second, false);
    const Lines across = findings_of(KVCAL_KERNEL(touch_kernel), {2, 1}, x.data(), c.first, c.second, false);
    const auto which =
        testing::PrintToString(static_cast<int>(c.first)) + testing::PrintToString(static_cast<int>(c.second));
    EXPECT_EQ(mentions(in_block, "global memory, byte 0"), c.conflict) << which << testing::PrintToString(in_block);
    EXPECT_EQ(mentions(across, "no order between blocks"), c.conflict) << which << testing::PrintToString(across);
    EXPECT_EQ(in_block.empty() && across.empty(), !c.conflict) << which;
  }
}

TEST(Races, ABarrierOrdersABlockAndNoOther) {
  const Array x(128);
  EXPECT_EQ(findings_of(KVCAL_KERNEL(touch_kernel), {1, 2}, x.data(), How::Atomic, How::Atomic, true), Lines());
  const Lines lines = findings_of(KVCAL_KERNEL(touch_kernel), {2, 1}, x.data(), How::Atomic, How::Atomic, true);
  EXPECT_TRUE(mentions(lines, "no order between blocks")) << testing::PrintToString(lines);
}

TEST(Races, ALaunchComesAfterTheOneBefore) {
  const Array x(128);
  for (const How how : {How::Write, How::Read, How::Atomic})
    EXPECT_EQ(findings_of(KVCAL_KERNEL(touch_kernel), {1, 1}, x.data(), how, how, false), Lines());
}

// ---------------------------------------------------------------- asynchronous copies

struct alignas(16) Slab {
  float values[kThreads * 4];
};

enum class Copy : uint8_t { Right, NoWait, NoBarrier, Overwritten, CopiedTwice, ChangedSource };

/// Each thread copies 16 bytes and reads those of its neighbour.
template <Copy copy>
__global__ void copy_kernel(float* from, float* out) {
  KVCAL_SHARED(Slab, slab, 1);
  const unsigned i = threadIdx.x, neighbour = i ^ 32;
  copy_async(&slab[0].values[4 * i], from + 4 * i, 16);
  commit_copies();
  if (copy == Copy::CopiedTwice) copy_async(&slab[0].values[4 * i], from + 4 * i, 16);
  if (copy == Copy::Overwritten) slab[0].values[4 * i] = 1.0f;
  if (copy == Copy::ChangedSource) from[4 * i] = 2.0f;
  if (copy == Copy::NoWait) __syncthreads();
  if (copy == Copy::NoWait) out[i] = slab[0].values[4 * i];
  commit_copies();
  wait_copies<0>();
  if (copy != Copy::NoBarrier) __syncthreads();
  out[i] = slab[0].values[4 * neighbour];
}

TEST(Races, CopiesArriveBeforeTheyAreRead) {
  const Array from(4 * kThreads), out(kThreads);
  const auto run = [&](auto kernel) { return findings_of(kernel, {}, from.data(), out.data()); };
  EXPECT_EQ(run(KVCAL_KERNEL(copy_kernel<Copy::Right>)), Lines());
  for (const Lines& lines :
       {run(KVCAL_KERNEL(copy_kernel<Copy::NoWait>)), run(KVCAL_KERNEL(copy_kernel<Copy::Overwritten>)),
        run(KVCAL_KERNEL(copy_kernel<Copy::CopiedTwice>))})
    EXPECT_TRUE(mentions(lines, "has not been waited for")) << testing::PrintToString(lines);
  // Waiting is of the thread's own copies.
  EXPECT_TRUE(mentions(run(KVCAL_KERNEL(copy_kernel<Copy::NoBarrier>)), "no __syncthreads() between"));
}

/// Another thread changes the source while the copy may be reading it.
__global__ void source_kernel(float* from, bool early) {
  KVCAL_SHARED(Slab, slab, 1);
  if (threadIdx.x == 0) copy_async(&slab[0], from, 16);
  commit_copies();
  if (!early) wait_copies<0>();
  __syncthreads();
  if (threadIdx.x == 1) from[2] = 2.0f;
  __syncthreads();
  wait_copies<0>();
}

TEST(Races, CopiesAreWaitedForBeforeTheirSourceChanges) {
  const Array from(4);
  EXPECT_EQ(findings_of(KVCAL_KERNEL(source_kernel), {}, from.data(), false), Lines());
  EXPECT_TRUE(
      mentions(findings_of(KVCAL_KERNEL(source_kernel), {}, from.data(), true), "before the copy is waited for"));
}

// ---------------------------------------------------------------- alignment

using Vector = Pack<float, 4>;

constexpr int kVectorLine = __LINE__ + 2;
__global__ void vector_kernel(const float* x, float* out) {
  const auto v = *reinterpret_cast<const Vector*>(x);
  for (int i = 0; i < 4; ++i) out[i] = v.values[i];
}
__global__ void shared_vector_kernel(float* out) {
  KVCAL_SHARED(float, value, 4);
  for (float& x : value) x = 1.0f;
  for (const float x : reinterpret_cast<const Vector*>(value)->values) *out += x;
}
__global__ void copy_to_kernel(float* from) {
  KVCAL_SHARED(float, value, 8);
  copy_async(value, from, 16);
}
__global__ void matrix_kernel() {
  KVCAL_SHARED(Slab, slab, 1);
  uint32_t r[4];
  load_matrices(r, &slab[0].values[1]);
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "";
}

TEST(Races, VectorsLieAtMultiplesOfTheirSize) {
  const Array x(8), out(4);
  EXPECT_EQ(findings_of(KVCAL_KERNEL(vector_kernel), {1, 1}, x.data() + 4, out.data()), Lines());
  EXPECT_EQ(error_of([&] {
              findings_of(KVCAL_KERNEL(vector_kernel), {2, 1}, x.data() + 1, out.data());
            }),
            "vector_kernel: thread 0 of block 0 uses an address that is not a multiple of 16 at " +
                in_this_file(kVectorLine));
  // An array of floats lies where floats may.
  EXPECT_NE(error_of([&] { findings_of(KVCAL_KERNEL(shared_vector_kernel), {1, 1}, out.data()); }), "");
  EXPECT_EQ(error_of([&] {
              findings_of(KVCAL_KERNEL(copy_to_kernel), {1, 1}, x.data());
            }),
            "an asynchronous copy from or to an address that is not a multiple of 16");
  EXPECT_EQ(error_of([&] {
              findings_of(KVCAL_KERNEL(matrix_kernel), {1, 32});
            }),
            "a row of a matrix at an address that is not a multiple of 16");
}

// ---------------------------------------------------------------- small values

/// Each thread writes a byte, then a half: cells of the shadow are as small as what is touched.
__global__ void small_kernel(bool shift) {
  KVCAL_SHARED(Slab, slab, 1);
  auto* const bytes = reinterpret_cast<unsigned char*>(slab);
  slab[0].values[threadIdx.x] = 1.0f;
  __syncthreads();
  bytes[threadIdx.x + (shift && threadIdx.x == 40)] = 1;
  __syncthreads();
  reinterpret_cast<bf16*>(bytes)[threadIdx.x] = bf16{1};
}

TEST(Races, AreOfSingleBytes) {
  EXPECT_EQ(findings_of(KVCAL_KERNEL(small_kernel), {}, false), Lines());
  EXPECT_TRUE(mentions(findings_of(KVCAL_KERNEL(small_kernel), {}, true), "shared memory, byte 41: thread 41"));
}

// ---------------------------------------------------------------- what is said

TEST(Races, AreSaidInOneLineEachWithBothPlaces) {
  const Lines lines = neighbours<Between::Nothing>(32);
  EXPECT_EQ(lines.size(), 3U);  // the first warp reads what is not written yet, and is read too early itself
  EXPECT_EQ(lines.back(), "neighbour_kernel<between>: shared memory, byte 0: thread 32 of block 0 reads at " +
                              in_this_file(kLine + 8) + " what thread 0 of block 0 writes at " +
                              in_this_file(kLine + 6) + ", no __syncthreads() between; 32 times");
}

/// A race at each of seven places.
__global__ void many_kernel(float* x) {
  x[0] = 1.0f;
  x[1] = 1.0f;
  x[2] = 1.0f;
  x[3] = 1.0f;
  x[4] = 1.0f;
  x[5] = 1.0f;
  x[6] = 1.0f;
}

TEST(Races, AreNotAFlood) {
  const Array x(8);
  const Lines lines = findings_of(KVCAL_KERNEL(many_kernel), {}, x.data());
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines.back(), "and 2 more findings");
  EXPECT_EQ(emulator::race::take_findings(), Lines());
}

TEST(Races, BarriersCanBeLeftOut) {
  emulator::race::take_barriers();
  EXPECT_EQ(neighbours<Between::SyncThreads>(32), Lines());
  const auto barriers = emulator::race::take_barriers();
  ASSERT_EQ(barriers.size(), 1U);
  emulator::race::leave_out(barriers);
  EXPECT_TRUE(mentions(neighbours<Between::SyncThreads>(32), "no __syncthreads() between"));
  emulator::race::leave_out({});
  EXPECT_EQ(neighbours<Between::SyncThreads>(32), Lines());
}

}  // namespace
}  // namespace kvcal::cuda
