// Streams and events of the emulated device: work is queued in order, and done at a time that a test chooses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

struct EmulatedStream;
struct EmulatedEvent;

namespace emulator {

/// When queued work is done. Immediate: at once. Late: when somebody waits for it, and no sooner, so that whoever
/// forgot to wait reads what was there before. Random: any stream may go on whenever anything is queued, so that work
/// which overtakes another stream's is seen too. Events that a stream waits for are always honoured.
enum class Timing : uint8_t { Immediate, Late, Random };
void set_timing(Timing timing, uint32_t seed = 1);

/// Queues work; the null stream waits for everything and works at once. What the work throws comes out of the call that
/// has it done.
void enqueue(EmulatedStream* stream, std::function<void()> work);

/// Does everything that was queued anywhere.
void synchronize_all();

EmulatedStream* new_stream();
void destroy(EmulatedStream* stream);  // its work is still done, as CUDA promises
void synchronize(EmulatedStream* stream);

EmulatedEvent* new_event();
void destroy(EmulatedEvent* event);
void record(EmulatedEvent* event, EmulatedStream* stream);
void wait(EmulatedStream* stream,
          EmulatedEvent* event);  // of the event as it was last recorded; never recorded: nothing
void synchronize(EmulatedEvent* event);
bool is_done(EmulatedEvent* event);

/// The clock of the device, in milliseconds, stands still but for work that says how long it takes, so that times are
/// the same in every run. time_of: when the event was reached; below 0: it was not.
void pass_time(double milliseconds);
double time_of(EmulatedEvent* event);

// ---------------------------------------------------------------- memory

/// Bytes that this thread's emulated device has, and that are in use; what was the most in use since
/// set_device_memory().
constexpr size_t kUsualDeviceMemory = size_t{8} << 30;  // more than tests need
void set_device_memory(size_t bytes);
size_t device_memory();
size_t device_bytes_in_use();
size_t device_bytes_peak();

}  // namespace emulator
