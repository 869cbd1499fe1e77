// Runs CUDA kernels on the CPU, so that the same source is tested where there is no GPU.
//
// The threads of a block are fibers (ucontext); blocks run one after the other. The scheduler goes through the warps of
// a block in a given order and lets each run as far as it gets without the others: to __syncthreads() or its end; in
// it, each lane to the next warp operation. So a thread never sees what a later one has written unless a barrier lies
// between, and with the orders ascending, descending and shuffled a missing barrier shows in at least one. Shared
// memory holds NaN patterns when a block begins. Races that the order of threads does not show are found by race.h, in
// kernels that are compiled for it. No timing, and no more of the memory model than that: racecheck on a GPU stays the
// judge.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace emulator {

struct Extent {
  unsigned x = 1, y = 1, z = 1;
  size_t count() const { return size_t{x} * y * z; }
};

/// In which order the threads of a block get their turn. Tests go through all three.
enum class Order : uint8_t { Ascending, Descending, Shuffled };
void set_order(Order order);

/// How often each kernel ran since the program began, by the name it was launched under.
const std::map<std::string, int64_t>& launches();

/// Limits of the emulated device, those of Hopper: a launch beyond them fails as it would there.
inline constexpr size_t kMostThreads = 1024, kMostSharedBytes = 232448, kMostGridYZ = 65535;
inline constexpr size_t kSmallSharedBytes = 101376;  // of a "small" one: GPUs of workstations (sm_86, sm_89, sm_120)
inline constexpr int kPoison = 0xFF;  // every float, bf16 and half of such bytes is NaN, every signed integer -1

/// Whether the device has the instructions of a kernel: the small one has no warpgroups, nor has tests/ptx, which knows
/// compute_80.
bool has_body(const std::string& kernel);

/// Runs `thread` for each thread of each block; rethrows the first exception that one of them throws. Throws
/// std::logic_error for a barrier that some threads never reach.
void run(const std::string& name, Extent grid, Extent block, size_t shared_bytes, const std::function<void()>& thread);

/// A parameter's value.
struct Argument {
  const void* value;
  size_t bytes, alignment;
};

/// A launch, for whoever runs the kernel from something else than its host function: tests/ptx.
struct KernelCall {
  std::string name;
  const void* function;
  Extent grid, block;
  size_t shared_bytes;
  std::vector<Argument> arguments;
};
using KernelRunner = std::function<void(const KernelCall&)>;
void set_kernel_runner(KernelRunner runner);
const KernelRunner& kernel_runner();  // empty: run() does it

// ---------------------------------------------------------------- for threads of a running block

Extent thread_index();
Extent block_index();
Extent block_extent();
Extent grid_extent();

/// Ends the launch with this error: the running thread goes no further.
[[noreturn]] void fail_launch(const std::string& what);

/// __syncthreads()
void barrier();

/// __syncwarp()
void sync_warp(unsigned mask);

/// The block's memory of one __shared__ variable: the same for equal keys, poisoned when the block began. Aligned as
/// its type asks, and no better.
void* shared_memory(const void* key, size_t bytes, size_t alignment);
void* dynamic_shared_memory();

/// Hands `bytes` (at most kPayload) to the other lanes of the warp and waits for all lanes of the mask.
inline constexpr size_t kPayload = 32;
void publish(unsigned mask, const void* value, size_t bytes);

/// What `lane` of this thread's warp published. Valid until this thread's next wait. Null: the lane was not in the
/// mask.
const void* published(unsigned lane);
/// The same, copied; whether the lane was in the mask.
bool receive(unsigned lane, void* to, size_t bytes);
unsigned lane_index();

/// __reduce_max_sync()
unsigned reduce_max(unsigned mask, unsigned value);

template <class T>
T exchange(unsigned mask, const T& value, unsigned source) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kPayload);
  publish(mask, &value, sizeof(T));
  T result = value;  // a lane that takes no part leaves the reader its own value, as the hardware may
  receive(source, &result, sizeof(T));
  return result;
}

/// An atomic operation of the running thread, from here to the end of the scope. One thread runs at a time, so plain
/// reads and writes will do.
class AtomicOperation {
 public:
  AtomicOperation(const void* address, size_t bytes);
  ~AtomicOperation();
};

// ---------------------------------------------------------------- asynchronous copies of one thread

/// Of 16 bytes, from and to multiples of 16, or std::logic_error. The destination is poisoned now and filled when
/// waited for; n_valid bytes are copied, the rest becomes zero.
void copy_async(void* to, const void* from, size_t bytes, size_t n_valid);
void commit_copies();

/// Completes all groups but the newest `pending`.
void wait_copies(size_t pending);

/// Of the 16 bytes that copies and matrices are moved in.
inline bool is_aligned(const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; }

}  // namespace emulator
