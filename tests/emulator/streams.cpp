#include "emulator/streams.h"

#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "emulator/memory.h"

namespace {

/// Work in order; `position` counts what was ever queued. Shared with the events recorded on it, which may outlive it.
struct Queue {
  struct Work {
    std::function<void()> run;
    std::shared_ptr<Queue> after;  // a wait: nothing to run, but that queue has to be done up to `position`
    uint64_t position = 0;
  };
  std::deque<Work> work;
  uint64_t n_queued = 0, n_done = 0;
};

}  // namespace

struct EmulatedStream {
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
};

struct EmulatedEvent {
  std::shared_ptr<Queue> queue;  // null: never recorded
  uint64_t position = 0;
  std::shared_ptr<double> time = std::make_shared<double>(-1.0);  // outlives the event while it is queued
};

namespace emulator {
namespace {

double g_now = 0.0;  // milliseconds

std::recursive_mutex g_mutex;  // reader threads queue copies while the main thread queues kernels
Timing g_timing = Timing::Immediate;
std::mt19937 g_random(1);
std::vector<std::shared_ptr<Queue>> g_queues;

void do_work(const std::function<void()>& work) {
  const DeviceAccess access;
  work();
}

void run_until(const std::shared_ptr<Queue>& queue, uint64_t position) {
  while (queue->n_done < position) {
    const Queue::Work next = std::move(queue->work.front());
    queue->work.pop_front();
    ++queue->n_done;
    if (next.after)
      run_until(next.after, next.position);
    else
      do_work(next.run);
  }
}

/// Some streams go on for a while, but not past an event that has not come.
void run_some() {
  for (size_t turns = g_random() % 4; turns > 0 && !g_queues.empty(); --turns) {
    const auto queue = g_queues[g_random() % g_queues.size()];
    for (size_t n = g_random() % 8; n > 0 && !queue->work.empty(); --n) {
      const Queue::Work& next = queue->work.front();
      if (next.after && next.after->n_done < next.position) break;
      run_until(queue, queue->n_done + 1);
    }
  }
}

void add(const std::shared_ptr<Queue>& queue, Queue::Work work) {
  queue->work.push_back(std::move(work));
  ++queue->n_queued;
  if (g_timing == Timing::Immediate) run_until(queue, queue->n_queued);
  if (g_timing == Timing::Random) run_some();
}

}  // namespace

void set_timing(Timing timing, uint32_t seed) {
  const std::lock_guard lock(g_mutex);
  synchronize_all();
  g_timing = timing;
  g_random.seed(seed);
}

void enqueue(EmulatedStream* stream, std::function<void()> work) {
  const std::lock_guard lock(g_mutex);
  if (stream) return add(stream->queue, {std::move(work), nullptr, 0});
  synchronize_all();
  do_work(work);
}

void synchronize_all() {
  const std::lock_guard lock(g_mutex);
  for (size_t i = 0; i < g_queues.size(); ++i) run_until(g_queues[i], g_queues[i]->n_queued);
}

EmulatedStream* new_stream() {
  const std::lock_guard lock(g_mutex);
  auto* const stream = new EmulatedStream;
  g_queues.push_back(stream->queue);
  return stream;
}

void destroy(EmulatedStream* stream) {
  const std::lock_guard lock(g_mutex);
  run_until(stream->queue, stream->queue->n_queued);
  std::erase(g_queues, stream->queue);
  delete stream;
}

void synchronize(EmulatedStream* stream) {
  const std::lock_guard lock(g_mutex);
  if (stream)
    run_until(stream->queue, stream->queue->n_queued);
  else
    synchronize_all();
}

EmulatedEvent* new_event() { return new EmulatedEvent; }
void destroy(EmulatedEvent* event) { delete event; }

void record(EmulatedEvent* event, EmulatedStream* stream) {
  const std::lock_guard lock(g_mutex);
  event->time = std::make_shared<double>(-1.0);
  const auto stamp = [time = event->time] { *time = g_now; };
  if (stream) {
    add(stream->queue, {stamp, nullptr, 0});
  } else {
    synchronize_all();
    stamp();
  }
  event->queue = stream ? stream->queue : nullptr;
  event->position = stream ? stream->queue->n_queued : 0;
}

void wait(EmulatedStream* stream, EmulatedEvent* event) {
  const std::lock_guard lock(g_mutex);
  if (stream && event->queue) add(stream->queue, {nullptr, event->queue, event->position});
}

void synchronize(EmulatedEvent* event) {
  const std::lock_guard lock(g_mutex);
  if (event->queue) run_until(event->queue, event->position);
}

bool is_done(EmulatedEvent* event) {
  const std::lock_guard lock(g_mutex);
  return !event->queue || event->queue->n_done >= event->position;
}

void pass_time(double milliseconds) {
  const std::lock_guard lock(g_mutex);
  g_now += milliseconds;
}

double time_of(EmulatedEvent* event) {
  const std::lock_guard lock(g_mutex);
  return *event->time;
}

}  // namespace emulator
