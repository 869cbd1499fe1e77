// Memory of a device: the heap and the arena inside what the plan took, and the staging of small arrays.
#include "kernels/runtime/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/cuda_ops.h"
#include "kernels/runtime/device_heap.h"
#include "kernels/runtime/pinned_staging.h"

namespace kvcal::cuda {
namespace {

using End = DeviceHeap::End;

TEST(DeviceHeap, TakesFromBothEndsAndJoinsWhatComesBack) {
  DeviceHeap heap(10 * kAlignment);
  const auto at = [&](const std::shared_ptr<void>& p, const std::shared_ptr<void>& base) {
    return (static_cast<char*>(p.get()) - static_cast<char*>(base.get())) / static_cast<ptrdiff_t>(kAlignment);
  };
  auto a = heap.allocate(1, End::Low), b = heap.allocate(2 * kAlignment, End::Low);
  auto y = heap.allocate(kAlignment, End::High), z = heap.allocate(3 * kAlignment, End::High);
  EXPECT_EQ(at(b, a), 1);
  EXPECT_EQ(at(y, a), 9);
  EXPECT_EQ(at(z, a), 6);
  EXPECT_EQ(heap.in_use(), 7 * kAlignment);
  EXPECT_EQ(heap.allocate(3 * kAlignment + 1, End::Low), nullptr);
  b.reset();
  EXPECT_EQ(at(heap.allocate(5 * kAlignment, End::High), a), 1);  // the hole and what lay beside it
  z.reset();
  y.reset();
  EXPECT_EQ(at(heap.allocate(9 * kAlignment, End::Low), a), 1);
  EXPECT_EQ(heap.in_use(), kAlignment);
  EXPECT_EQ(heap.peak(), 10 * kAlignment);
}

// Layers of changing sizes, two at a time, from opposite ends, with small things that live for one layer only.
TEST(DeviceHeap, LayersThatTakeTurnsNeedNoMoreThanTwo) {
  constexpr size_t kMost = 40 * kAlignment;
  DeviceHeap heap(2 * kMost + 4 * kAlignment);
  std::vector<std::shared_ptr<void>> layers[2];
  const auto load = [&](size_t n) {
    for (size_t left = n % 2 ? kMost : kMost - n % 7 * kAlignment; left > 0;) {
      const size_t bytes = std::min(left, (1 + (left / kAlignment + n) % 5) * kAlignment);
      layers[n % 2].push_back(heap.allocate(bytes, n % 2 ? End::High : End::Low));
      ASSERT_NE(layers[n % 2].back(), nullptr) << "layer " << n;
      left -= bytes;
    }
  };
  load(0);
  for (size_t n = 0; n < 50; ++n) {
    load(n + 1);
    const auto table = heap.allocate(4 * kAlignment, End::Low);
    ASSERT_NE(table, nullptr) << "layer " << n;
    layers[n % 2].clear();
  }
}

TEST(DeviceArena, TakesWhatWasReservedAndNotAByteMore) {
  const Stream stream = make_stream();
  DeviceArena arena(stream.get());
  arena.reserve(4 * kAlignment);
  arena.allocate({int64_t{3 * kAlignment}}, DType::U8);
  EXPECT_NO_THROW(arena.allocate({64}, DType::F32));
  arena.reset();
  arena.allocate({1}, DType::F32);
  EXPECT_EQ(arena.peak(), 4 * kAlignment);
  try {
    arena.allocate({2, 128}, DType::F32);
    FAIL() << "took more than was reserved";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "a batch needs 1024 bytes for F32 [2, 128], but 256 of the 1024 that the memory plan took for batches "
                 "are in use; the plan counts too little for this model: take a smaller --chunk-tokens");
  }
}

// What was staged is there when the device gets to its copies, however many there were.
TEST(PinnedStaging, KeepsWhatTheDeviceHasNotRead) {
  emulator::set_timing(emulator::Timing::Late);
  {
    const Stream stream = make_stream();
    PinnedStaging staging(stream.get());
    constexpr size_t kBytes = PinnedStaging::kBlockBytes / 2 - 1000, kTimes = 4 * PinnedStaging::kBlocks;
    const DeviceBytes there = allocate_bytes(kTimes);
    EXPECT_EQ(staging.take(PinnedStaging::kBlockBytes + 1), nullptr);
    for (size_t i = 0; i < kTimes; ++i) {
      auto* const memory = static_cast<char*>(staging.take(kBytes));
      std::memset(memory, static_cast<int>(i), kBytes);
      check(cudaMemcpyAsync(static_cast<char*>(there.get()) + i, memory + kBytes - 1, 1, cudaMemcpyHostToDevice,
                            stream.get()),
            "copying");
    }
    check(cudaStreamSynchronize(stream.get()), "waiting");
    for (size_t i = 0; i < kTimes; ++i) EXPECT_EQ(static_cast<char*>(there.get())[i], static_cast<char>(i));
  }
  emulator::set_timing(emulator::Timing::Immediate);
}

// More rows than the pinned blocks hold at once, gathered by several threads while the device is behind.
TEST(Embedding, RowsOfATableComeWhereTheyBelong) {
  constexpr int64_t kRows = 500, kDim = 1030, kIds = 15000;
  const Storage table({kRows, kDim}, DType::F32);
  for (int64_t i = 0; i < kRows * kDim; ++i) table.tensor().as<float>()[i] = static_cast<float>(i / kDim * 4 + i % 3);
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < kIds; ++t) ids.push_back(static_cast<int32_t>(t * 7919 % kRows));
  for (const Precision precision : {Precision::BF16, Precision::F32}) {
    emulator::set_timing(emulator::Timing::Late);
    const std::unique_ptr<Ops> op = make_cuda_ops({precision, 0, true});
    const Tensor rows = op->embed(table.tensor(), ids);
    const Storage host(rows.shape, rows.dtype);
    op->download(rows, host.tensor());
    emulator::set_timing(emulator::Timing::Immediate);
    std::vector<float> values(static_cast<size_t>(kIds * kDim));
    convert_to_float(rows.dtype, host.tensor().data, values.data(), values.size());
    for (int64_t t = 0; t < kIds; ++t)
      for (const int64_t i : {int64_t{0}, int64_t{1}, kDim - 1}) {
        const float x =
            static_cast<float>(ids[static_cast<size_t>(t)] * 4 + (ids[static_cast<size_t>(t)] * kDim + i) % 3);
        ASSERT_EQ(values[static_cast<size_t>(t * kDim + i)], precision == Precision::BF16 ? round_to_bf16(x) : x) << t;
      }
  }
}

}  // namespace
}  // namespace kvcal::cuda
