#include "emulator/emulator.h"

#include <setjmp.h>
#include <ucontext.h>
#ifdef KVCAL_SANITIZED
#include <dlfcn.h>
#include <sanitizer/asan_interface.h>
#endif

#include <algorithm>
#include <deque>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "emulator/race.h"
#include "emulator/warpgroup.h"

namespace emulator {
namespace {

constexpr size_t kWarp = 32;
constexpr size_t kStackBytes = size_t{256} << 10;

enum class State : uint8_t { Ready, AtBarrier, AtWarp, Done };

struct Copy {
  void* to;
  const void* from;
  size_t bytes, n_valid;
  race::CopyWatch watch;
};

struct SharedVariable {
  std::vector<std::max_align_t> memory;
  void* at = nullptr;
};

#ifdef KVCAL_SANITIZED
/// Past the address sanitizer's own, which takes a jump for the end of many functions.
void jump(jmp_buf to) {
  static const auto longjmp_of_libc = reinterpret_cast<void (*)(jmp_buf, int)>(dlsym(RTLD_NEXT, "_longjmp"));
  longjmp_of_libc(to, 1);
}
#else
void jump(jmp_buf to) { _longjmp(to, 1); }
#endif

/// Where a fiber, or the scheduler, goes on. ucontext makes the stack; from then on jumps do without its system calls.
class Place {
 public:
  void start_at(void (*function)(), char* stack) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    makecontext(&context_, function, 0);
    visited_ = false;
#ifdef KVCAL_SANITIZED
    ASAN_UNPOISON_MEMORY_REGION(stack, kStackBytes);  // where an error left functions in the middle
#endif
  }
  void leave_for(Place& to) {
    visited_ = true;
    if (_setjmp(jump_) != 0) return;
    if (to.visited_) jump(to.jump_);
    setcontext(&to.context_);
  }

 private:
  ucontext_t context_;
  jmp_buf jump_;
  bool visited_ = false;
};

struct Fiber {
  Place place;
  std::unique_ptr<char[]> stack;
  Extent index;
  State state = State::Ready;
  bool threw = false;
  unsigned mask = 0;                     // of the warp operation it waits in
  bool orders_memory = false;            // which is __syncwarp()
  std::array<char, kPayload> payload;    // given to publish()
  std::array<char, kPayload> result;     // the payload when the operation was complete
  unsigned result_mask = 0;              // lanes of that operation
  std::vector<Copy> open_copies;         // not committed
  std::deque<std::vector<Copy>> copies;  // committed groups, oldest first
  ThreadProducts products;
};

struct Block {
  Place scheduler;
  std::vector<Fiber> fibers;
  size_t n_threads = 0, current = 0;
  Extent grid, extent, index;
  std::map<const void*, SharedVariable> shared;
  std::vector<std::max_align_t> dynamic;
  const std::function<void()>* thread = nullptr;
  std::exception_ptr error;
};

Order g_order = Order::Ascending;
std::mt19937 g_random(1);
std::map<std::string, int64_t> g_launches;
KernelRunner g_runner;
std::unique_ptr<Block> g_kept;  // stacks are reused from launch to launch
Block* g_block = nullptr;       // of the running launch

Fiber& self() { return g_block->fibers[g_block->current]; }

void wait(State state) {
  Fiber& fiber = self();
  fiber.state = state;
  fiber.place.leave_for(g_block->scheduler);
}

/// Thread after thread: a stack is made once.
void fiber_main() {
  for (;;) {
    try {
      (*g_block->thread)();
      if (!self().copies.empty() || !self().open_copies.empty())
        throw std::logic_error("a thread ends with asynchronous copies that nobody waited for");
      if (!self().products.waited_for()) throw std::logic_error("a thread ends with products that nobody waited for");
    } catch (...) {
      self().threw = true;
      if (!g_block->error) g_block->error = std::current_exception();
    }
    wait(State::Done);
  }
}

std::vector<std::max_align_t> poisoned(size_t bytes) {
  std::vector<std::max_align_t> memory((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
  if (!memory.empty()) std::memset(memory.data(), kPoison, memory.size() * sizeof(std::max_align_t));
  return memory;
}

void start_fiber(Fiber& fiber, size_t i, const Extent& block) {
  // Or left in the middle of a thread by an error, of which the address sanitizer has not seen the end of functions.
  const bool fresh = !fiber.stack || fiber.state != State::Done || fiber.threw;
  if (!fiber.stack) fiber.stack.reset(new char[kStackBytes]);  // not initialised: most of it stays untouched
  const auto n = static_cast<unsigned>(i);
  fiber.index = {n % block.x, n / block.x % block.y, n / (block.x * block.y)};
  fiber.state = State::Ready;
  fiber.threw = false;
  fiber.open_copies.clear();
  fiber.copies.clear();
  fiber.products = {};
  if (fresh) fiber.place.start_at(fiber_main, fiber.stack.get());
}

/// Completes the operations of one warp whose lanes have all arrived; whether there was one.
bool release_warp(Block& b, size_t first) {
  bool released = false;
  for (size_t lane = 0; lane < kWarp && first + lane < b.n_threads; ++lane) {
    if (b.fibers[first + lane].state != State::AtWarp) continue;
    const unsigned mask = b.fibers[first + lane].mask;
    bool complete = true;
    for (size_t l = 0; l < kWarp; ++l) {
      if (!(mask >> l & 1)) continue;
      if (first + l >= b.n_threads || b.fibers[first + l].state == State::Done)
        throw std::logic_error("a warp operation waits for lane " + std::to_string(l) + ", which has ended");
      complete &= b.fibers[first + l].state == State::AtWarp && b.fibers[first + l].mask == mask;
    }
    if (!complete) continue;
    if (b.fibers[first + lane].orders_memory) race::sync_warp(first, mask);
    for (size_t l = 0; l < kWarp; ++l) {
      if (!(mask >> l & 1)) continue;
      Fiber& f = b.fibers[first + l];
      f.result = f.payload;
      f.result_mask = mask;
      f.state = State::Ready;
    }
    released = true;
  }
  return released;
}

/// All threads wait at the barrier: let them go. Anything else is a deadlock.
void release_barrier(Block& b) {
  size_t waiting = 0;
  for (size_t i = 0; i < b.n_threads; ++i) waiting += b.fibers[i].state == State::AtBarrier;
  if (waiting != b.n_threads)
    throw std::logic_error("a barrier that only " + std::to_string(waiting) + " of " + std::to_string(b.n_threads) +
                           " threads reach");
  for (size_t i = 0; i < b.n_threads; ++i) b.fibers[i].state = State::Ready;
  race::barrier();
}

std::vector<size_t> turns(size_t n) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  if (g_order == Order::Descending) std::reverse(order.begin(), order.end());
  if (g_order == Order::Shuffled) std::shuffle(order.begin(), order.end(), g_random);
  return order;
}

/// Lets a warp go on for as long as it can without the others: a warp operation is no barrier of the block.
void run_warp(Block& b, size_t first) {
  do {
    for (const size_t lane : turns(std::min(kWarp, b.n_threads - first))) {
      if (b.fibers[first + lane].state != State::Ready) continue;
      b.current = first + lane;
      race::resume(b.current, b.fibers[b.current].stack.get(), kStackBytes);
      b.scheduler.leave_for(b.fibers[b.current].place);
      race::pause();
      if (b.error) std::rethrow_exception(b.error);
    }
  } while (release_warp(b, first));
}

void run_block(Block& b) {
  for (;;) {
    for (const size_t warp : turns((b.n_threads + kWarp - 1) / kWarp)) run_warp(b, warp * kWarp);
    const auto done = [](const Fiber& f) { return f.state == State::Done; };
    if (std::all_of(b.fibers.begin(), b.fibers.begin() + static_cast<ptrdiff_t>(b.n_threads), done)) return;
    release_barrier(b);
  }
}

struct Running {  // so that an exception leaves no launch behind
  explicit Running(Block& b) { g_block = &b; }
  ~Running() { g_block = nullptr; }
};

}  // namespace

void set_order(Order order) {
  g_order = order;
  g_random.seed(1);
}

const std::map<std::string, int64_t>& launches() { return g_launches; }

void set_kernel_runner(KernelRunner runner) {
  g_runner = [runner = std::move(runner)](const KernelCall& call) {
    ++g_launches[call.name];
    runner(call);
  };
}
const KernelRunner& kernel_runner() { return g_runner; }

void run(const std::string& name, Extent grid, Extent block, size_t shared_bytes, const std::function<void()>& thread) {
  if (g_block) throw std::logic_error("a kernel is launched from a kernel");
  if (!g_kept) g_kept = std::make_unique<Block>();
  Block& b = *g_kept;
  const Running running(b);
  ++g_launches[name];
  b.n_threads = block.count();
  if (b.fibers.size() < b.n_threads) b.fibers.resize(b.n_threads);
  b.grid = grid;
  b.extent = block;
  b.thread = &thread;
  b.error = nullptr;
  race::begin_launch(name);
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        b.index = {x, y, z};
        b.shared.clear();
        b.dynamic = poisoned(shared_bytes);
        race::begin_block(b.n_threads);
        race::shared_memory(b.dynamic.data(), shared_bytes);
        for (size_t i = 0; i < b.n_threads; ++i) start_fiber(b.fibers[i], i, block);
        run_block(b);
      }
}

Extent thread_index() { return self().index; }
Extent block_index() { return g_block->index; }
Extent block_extent() { return g_block->extent; }
Extent grid_extent() { return g_block->grid; }

void fail_launch(const std::string& what) {
  g_block->error = std::make_exception_ptr(std::logic_error(what));
  for (;;) wait(State::AtBarrier);  // the scheduler comes back to no thread of this launch
}

void barrier() {
  if (!race::leaves_out(__builtin_return_address(0))) wait(State::AtBarrier);
}

void sync_warp(unsigned mask) {
  if (race::leaves_out(__builtin_return_address(0))) return;
  self().orders_memory = true;
  publish(mask, "", 0);
  self().orders_memory = false;
}

void* shared_memory(const void* key, size_t bytes, size_t alignment) {
  SharedVariable& variable = g_block->shared[key];
  if (!variable.at) {
    variable.memory = poisoned(bytes + alignment);
    variable.at = reinterpret_cast<char*>(variable.memory.data()) + alignment;  // of a multiple of 16
    race::shared_memory(variable.at, bytes);
  }
  return variable.at;
}

void* dynamic_shared_memory() { return g_block->dynamic.data(); }

unsigned lane_index() { return static_cast<unsigned>(g_block->current % kWarp); }

void publish(unsigned mask, const void* value, size_t bytes) {
  Fiber& fiber = self();
  if (!(mask >> lane_index() & 1)) throw std::logic_error("a lane takes part in a warp operation that leaves it out");
  std::memcpy(fiber.payload.data(), value, bytes);
  fiber.mask = mask;
  wait(State::AtWarp);
}

const void* published(unsigned lane) {
  lane %= kWarp;
  if (!(self().result_mask >> lane & 1)) return nullptr;
  return g_block->fibers[g_block->current / kWarp * kWarp + lane].result.data();
}

AtomicOperation::AtomicOperation(const void* address, size_t bytes) {
  race::begin_atomic(address, bytes, __builtin_return_address(0));
}

AtomicOperation::~AtomicOperation() { race::end_atomic(); }

bool receive(unsigned lane, void* to, size_t bytes) {
  const void* const from = published(lane);
  if (from) std::memcpy(to, from, bytes);
  return from;
}

unsigned reduce_max(unsigned mask, unsigned value) {
  publish(mask, &value, sizeof(value));
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if (unsigned other = 0; receive(lane, &other, sizeof(other))) value = std::max(value, other);
  return value;
}

void copy_async(void* to, const void* from, size_t bytes, size_t n_valid) {
  if (!is_aligned(to) || !is_aligned(from))
    throw std::logic_error("an asynchronous copy from or to an address that is not a multiple of 16");
  const race::CopyWatch watch = race::start_copy(to, from, bytes, n_valid, __builtin_return_address(0));
  std::memset(to, kPoison, bytes);
  self().open_copies.push_back({to, from, bytes, n_valid, watch});
}

void commit_copies() { self().copies.push_back(std::exchange(self().open_copies, {})); }

void wait_copies(size_t pending) {
  if (race::leaves_out(__builtin_return_address(0))) return;
  auto& groups = self().copies;
  self().products.shown = false;
  for (; groups.size() > pending; groups.pop_front())
    for (const Copy& c : groups.front()) {
      if (c.n_valid > 0) std::memcpy(c.to, c.from, c.n_valid);
      std::memset(static_cast<char*>(c.to) + c.n_valid, 0, c.bytes - c.n_valid);
      race::end_copy(c.watch);
    }
}

ThreadProducts& own_products() { return self().products; }

}  // namespace emulator
