// P0: what the machine can do at most, the denominators of the rest.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "base/error.h"
#include "bench/gpu/bench.h"
#include "kernels/runtime/memory.h"

namespace kvcal::bench {
namespace {

void bench_gemm(const Options& o) {
  const int64_t n = o.toy ? 32 : 8192, repeats = o.toy ? 1 : 10;
  const auto op = make_ops();
  const Owned x = random_tensor(*op, {n, n}, 1);
  const Storage weight({n, n}, DType::BF16);
  std::minstd_rand random(2);
  for (int64_t i = 0; i < n * n; ++i)
    weight.tensor().as<bf16>()[i] = to_bf16(static_cast<float>(random() % 2001) * 1e-5f - 0.00999f);
  const Linear w = op->load_linear(weight.tensor());
  const Values seconds = rounds_of(o, [&] {
    for (int64_t i = 0; i < repeats; ++i) {
      op->linear(x, w);
      op->end_batch();
    }
  });
  const auto size = static_cast<double>(n);
  print("P0", "gemm", "TFLOP/s", rates(2e-12 * size * size * size * static_cast<double>(repeats), seconds),
        {{"extents", {n, n, n}}});
}

void bench_copies(const Options& o) {
  const size_t bytes = o.toy ? 1 << 16 : size_t{4} << 30, pinned_bytes = o.toy ? 1 << 16 : size_t{1} << 30;
  const cuda::DeviceBytes a = cuda::allocate_bytes(bytes), b = cuda::allocate_bytes(bytes);
  const cuda::Stream stream = cuda::make_stream();
  cuda::check(cudaMemsetAsync(a.get(), 0x3C, bytes, stream.get()), "filling");
  const auto copy = [&](void* to, const void* from, size_t n, cudaMemcpyKind kind) {
    cuda::check(cudaMemcpyAsync(to, from, n, kind, stream.get()), "copying");
  };
  print("P0", "device to device copy", "GB/s",
        rates(2e-9 * static_cast<double>(bytes),
              rounds_of(o, [&] { copy(b.get(), a.get(), bytes, cudaMemcpyDeviceToDevice); })),
        {{"counts", "bytes read and written"}});
  void* pinned = nullptr;
  cuda::check(cudaHostAlloc(&pinned, pinned_bytes, cudaHostAllocDefault), "allocating pinned memory");
  std::memset(pinned, 0x3C, pinned_bytes);
  print("P0", "host to device copy", "GB/s", rates(1e-9 * static_cast<double>(pinned_bytes), rounds_of(o, [&] {
                                                     copy(b.get(), pinned, pinned_bytes, cudaMemcpyHostToDevice);
                                                   })));
  cuda::check(cudaFreeHost(pinned), "freeing pinned memory");
}

/// A file of random bytes, gone when this is.
class RandomFile {
 public:
  RandomFile(const std::string& folder, size_t bytes) : path_(folder + "/kvcal-read-ceiling"), bytes_(bytes) {
    const int file = open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (file < 0) fail("cannot write " + quoted(path_) + ": " + std::strerror(errno));
    std::vector<uint64_t> block((size_t{1} << 20) / sizeof(uint64_t));
    std::mt19937_64 random(3);
    for (size_t at = 0; at < bytes; at += block.size() * sizeof(uint64_t)) {
      for (uint64_t& x : block) x = random();
      if (write(file, block.data(), block.size() * sizeof(uint64_t)) < 0) fail("writing " + quoted(path_) + " failed");
    }
    fsync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
  ~RandomFile() { std::filesystem::remove(path_); }

  size_t bytes() const { return bytes_; }
  /// -1 when the file system refuses.
  int open_for(int flags) const { return open(path_.c_str(), O_RDONLY | flags); }

 private:
  std::string path_;
  size_t bytes_;
};

/// Several threads, blocks in turn; each its own aligned buffer.
void read_all(const RandomFile& file, int flags, int threads, size_t block) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  std::vector<std::thread> readers;
  for (int t = 0; t < threads; ++t)
    readers.emplace_back([&] {
      const int in = file.open_for(flags);
      void* buffer = std::aligned_alloc(4096, block);
      for (size_t at = block * next++; at < file.bytes(); at = block * next++)
        if (in < 0 || pread(in, buffer, block, static_cast<off_t>(at)) < 0) failed = true;
      std::free(buffer);
      if (in >= 0) {
        posix_fadvise(in, 0, 0, POSIX_FADV_DONTNEED);
        close(in);
      }
    });
  for (std::thread& r : readers) r.join();
  if (failed) fail("reading the file of P0 failed: " + std::string(std::strerror(errno)));
}

void bench_disk(const Options& o) {
  const RandomFile file(o.disk, o.toy ? size_t{1} << 20 : size_t{4} << 30);
  const int direct = file.open_for(O_DIRECT);
  const bool refused = direct < 0;
  if (!refused) close(direct);
  const int threads = o.toy ? 2 : 8;
  const size_t block = o.toy ? 1 << 16 : size_t{16} << 20;
  print("P0", "disk read", "GB/s",
        rates(1e-9 * static_cast<double>(file.bytes()),
              rounds_of(o, [&] { read_all(file, refused ? 0 : O_DIRECT, threads, block); })),
        {{"direct", !refused}, {"threads", threads}, {"block_bytes", block}});
}

}  // namespace

void bench_ceilings(const Options& o) {
  bench_gemm(o);
  bench_copies(o);
  bench_disk(o);
}

}  // namespace kvcal::bench
