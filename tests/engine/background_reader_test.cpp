// Weights arrive whole and converted whatever the number of threads, the size of the slots, the way of reading, and the
// times at which the device gets to its copies; each byte of the file is read once.
#include "kernels/runtime/background_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "engine/some_file.h"
#include "harness/message_of.h"
#include "kernels/runtime/memory.h"

namespace kvcal::cuda {
namespace {

namespace fs = std::filesystem;
using emulator::Timing;

cudaError_t close_file(int fd) { return ::close(fd) == 0 ? cudaSuccess : cudaErrorInvalidValue; }

struct Wanted {
  Tensor host;
  DType as;
  float plus;
};

/// What add() promises, computed plainly.
Storage expected(const Wanted& w) {
  Storage out(w.host.shape, w.as);
  const auto n = static_cast<size_t>(w.host.elements());
  std::vector<std::byte> aligned(w.host.bytes());
  std::memcpy(aligned.data(), w.host.data, aligned.size());
  if (w.as == DType::BF16) {
    convert_to_bf16(w.host.dtype, aligned.data(), out.tensor().as<bf16>(), n);
  } else {
    convert_to_float(w.host.dtype, aligned.data(), out.tensor().as<float>(), n);
    for (size_t i = 0; w.plus != 0 && i < n; ++i) out.tensor().as<float>()[i] += w.plus;
  }
  return out;
}

class BackgroundReaderTest : public testing::Test {
 protected:
  void TearDown() override { emulator::set_timing(Timing::Immediate); }

  Tensor device(const Shape& shape, DType dtype) {
    Tensor t{nullptr, shape, dtype, Device::Cuda};
    memory_.push_back(allocate_bytes(t.bytes()));
    t.data = memory_.back().get();
    return t;
  }

  /// Neighbours, gaps, one tensor larger than several slots, other types, a constant, the same again, no file at all.
  std::vector<Wanted> everything() {
    std::vector<Wanted> all = {{file_.at(1000, 3001, DType::BF16), DType::BF16, 0},
                               {file_.at(7002, 60000, DType::BF16), DType::BF16, 0},
                               {file_.at(250'000, 9000, DType::BF16), DType::BF16, 0},
                               {file_.at(299'998, 1, DType::BF16), DType::BF16, 0},
                               {file_.at(7002, 60000, DType::BF16), DType::BF16, 0},
                               {file_.at(8, 17, DType::BF16), DType::F32, 1},
                               {file_.at(130'001, 20'000, DType::F16), DType::BF16, 0},
                               {file_.at(130'001, 20'000, DType::F16), DType::F32, 0},
                               {file_.at(200'000, 9'001, DType::F32), DType::BF16, 0},
                               {file_.at(200'000, 1, DType::F32), DType::F32, 1},
                               {memory_tensor(50'000), DType::BF16, 0},
                               {memory_tensor(777), DType::F32, 0}};
    return all;
  }

  Tensor memory_tensor(int64_t n) {
    owned_.emplace_back(Shape{n}, DType::BF16);
    std::memcpy(owned_.back().tensor().data, file_.at(2, n, DType::BF16).data, owned_.back().tensor().bytes());
    return owned_.back().tensor();
  }

  static void run_on(cudaStream_t stream, const Tensor& from, const Tensor& to) {
    check(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyDeviceToDevice, stream), "copying");
  }

  SomeFile file_;
  const Stream compute_ = make_stream();
  std::vector<DeviceBytes> memory_;
  std::vector<Storage> owned_;
};

TEST_F(BackgroundReaderTest, EverythingArrivesWhateverTheThreadsSlotsAndTimes) {
  for (const Timing timing : {Timing::Immediate, Timing::Late, Timing::Random})
    for (const int readers : {1, 2, 5})
      for (const uint64_t slot : {uint64_t{8192 * 2}, uint64_t{1} << 20})
        for (const bool direct : {true, false}) {
          SCOPED_TRACE(testing::Message() << "timing " << static_cast<int>(timing) << ", " << readers
                                          << " readers, slots of " << slot << ", direct " << direct);
          emulator::set_timing(timing, static_cast<uint32_t>(readers));
          BackgroundReader reader(0, compute_.get(), {readers, 3, slot, direct});
          for (int layer = 0; layer < 2; ++layer) {
            const std::vector<Wanted> all = everything();
            std::vector<Tensor> there, used;
            reader.collect(file_);
            for (const Wanted& w : all) {
              there.push_back(device(w.host.shape, w.as));
              used.push_back(device(w.host.shape, w.as));
              reader.add(w.host, there.back(), w.plus);
            }
            for (const Storage& s : owned_) std::memset(s.tensor().data, 0, s.tensor().bytes());  // was copied
            owned_.clear();
            reader.start();
            EXPECT_FALSE(reader.collecting());
            reader.finish();
            for (size_t i = 0; i < all.size(); ++i) run_on(compute_.get(), there[i], used[i]);
            check(cudaStreamSynchronize(compute_.get()), "waiting");
            for (size_t i = 0; i + 2 < all.size(); ++i)
              EXPECT_EQ(std::memcmp(used[i].data, expected(all[i]).tensor().data, used[i].bytes()), 0) << i;
            const std::vector<Wanted> again = everything();
            for (size_t i = all.size() - 2; i < all.size(); ++i)
              EXPECT_EQ(std::memcmp(used[i].data, expected(again[i]).tensor().data, used[i].bytes()), 0) << i;
            owned_.clear();
            memory_.clear();
          }
        }
}

// The next layer's weights go to the memory of the one before, which still computes.
TEST_F(BackgroundReaderTest, CopiesWaitForWhatStillUsesTheMemory) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    emulator::set_timing(Timing::Random, seed);
    BackgroundReader reader(0, compute_.get(), {2, 2, 16384, true});
    const Tensor weights = device({8000}, DType::BF16), seen = device({8000}, DType::BF16);
    const Wanted first{file_.at(0, 8000, DType::BF16), DType::BF16, 0},
        second{file_.at(40'000, 8000, DType::BF16), DType::BF16, 0};
    reader.collect(file_);
    reader.add(first.host, weights, 0);
    reader.finish();
    run_on(compute_.get(), weights, seen);
    reader.collect(file_);
    reader.add(second.host, weights, 0);
    reader.finish();
    check(cudaStreamSynchronize(compute_.get()), "waiting");
    EXPECT_EQ(std::memcmp(seen.data, first.host.data, seen.bytes()), 0) << "seed " << seed;
    run_on(compute_.get(), weights, seen);
    check(cudaStreamSynchronize(compute_.get()), "waiting");
    EXPECT_EQ(std::memcmp(seen.data, second.host.data, seen.bytes()), 0) << "seed " << seed;
  }
}

TEST_F(BackgroundReaderTest, EachByteIsReadOnce) {
  BackgroundReader reader(0, compute_.get(), {2, 3, uint64_t{1} << 20, true});
  reader.collect(file_);
  constexpr int64_t kTensors = 100, kElements = 1250;  // 250,000 bytes in a row, in no order
  for (int64_t i = 0; i < kTensors; ++i) {
    const int64_t place = i * 37 % kTensors;
    reader.add(file_.at(static_cast<uint64_t>(4000 + place * kElements * 2), kElements, DType::BF16),
               device({kElements}, DType::BF16), 0);
  }
  reader.add(file_.at(290'000, 1000, DType::BF16), device({1000}, DType::BF16), 0);  // beyond a gap
  reader.finish();
  EXPECT_GE(reader.bytes_read(), 252'000U);
  EXPECT_LE(reader.bytes_read(), 252'000U + 4 * DirectFile::kAlignment);
}

// Weights are read once: they must not push out of the page cache what is read often, nor cost the processor a copy.
TEST_F(BackgroundReaderTest, WhatIsNotCachedIsReadPastTheCache) {
  constexpr uint64_t kFrom = 9'001, kBytes = 200'000;
  const Handle<int, close_file> fd(::open(file_.path().c_str(), O_RDONLY)),
      direct(::open(file_.path().c_str(), O_RDONLY | O_DIRECT));
  if (direct.get() < 0) GTEST_SKIP() << "the build tree's file system has no direct reads";
  const SourceFile& file = *file_.locate(file_.at(0, 1, DType::U8).data, 1)->file;
  EXPECT_TRUE(file.is_cached(kFrom, kBytes));  // just written
  for (int tries = 0; file.is_cached(50'000, 1) && tries < 100; ++tries) {
    ASSERT_EQ(::fsync(fd.get()), 0);
    ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    ::usleep(10'000);
  }
  if (file.is_cached(50'000, 1)) GTEST_SKIP() << "the page cache does not give the file up";
  BackgroundReader reader(0, compute_.get(), {2, 3, 16384, true});
  const Tensor host = file_.at(kFrom, kBytes / 2, DType::BF16), there = device({100'000}, DType::BF16);
  reader.collect(file_);
  reader.add(host, there, 0);
  reader.finish();
  EXPECT_FALSE(file.is_cached(50'000, 1));
  EXPECT_LE(reader.bytes_read(), kBytes + 2 * DirectFile::kAlignment);
  check(cudaStreamSynchronize(compute_.get()), "waiting");
  EXPECT_EQ(std::memcmp(there.data, host.data, host.bytes()), 0);
}

TEST_F(BackgroundReaderTest, AFileCutShortIsAnErrorThatNamesItAndTheReaderGoesOn) {
  for (const bool direct : {true, false}) {
    SomeFile cut;
    BackgroundReader reader(0, compute_.get(), {3, 2, 16384, direct});
    const Tensor there = device({140'000}, DType::BF16);
    const Tensor host = cut.at(0, 140'000, DType::BF16);
    reader.collect(cut);
    reader.add(host, there, 0);
    fs::resize_file(cut.path(), 100'000);
    reader.start();
    EXPECT_EQ(message_of([&] { reader.finish(); }),
              quoted(cut.path().string()) +
                  ": has become shorter while in use: 100000 bytes, expected 300000; is something "
                  "rewriting it?");
    reader.collect(file_);
    const Wanted w{file_.at(0, 100, DType::BF16), DType::BF16, 0};
    reader.add(w.host, there, 0);
    reader.finish();
    check(cudaStreamSynchronize(compute_.get()), "waiting");
    EXPECT_EQ(std::memcmp(there.data, w.host.data, w.host.bytes()), 0);
  }
}

TEST_F(BackgroundReaderTest, WhoGivesUpLeavesNothingBehind) {
  for (int i = 0; i < 20; ++i) {
    {
      BackgroundReader reader(0, compute_.get(), {4, 2, 16384, true});
      reader.collect(file_);
      for (const Wanted& w : everything()) reader.add(w.host, device(w.host.shape, w.as), w.plus);
      if (i % 2) reader.start();
      if (i % 4 < 2) reader.cancel();  // else the destructor
    }
    memory_.clear();
  }
}

}  // namespace
}  // namespace kvcal::cuda
