// Owns one object of CUDA; moving transfers it, destruction never throws.
#pragma once

#include <utility>

#include "kernels/runtime/check.h"

namespace kvcal::cuda {

template <class H, cudaError_t (*Destroy)(H)>
class Handle {
 public:
  explicit Handle(H h = {}) : h_(h) {}
  Handle(Handle&& o) noexcept : h_(std::exchange(o.h_, H{})) {}
  Handle& operator=(Handle&& o) noexcept {
    std::swap(h_, o.h_);
    return *this;
  }
  ~Handle() {
    if (h_) static_cast<void>(Destroy(h_));
  }
  H get() const { return h_; }

 private:
  H h_;
};

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using Event = Handle<cudaEvent_t, cudaEventDestroy>;
using DeviceBytes = Handle<void*, cudaFree>;
using PinnedBytes = Handle<void*, cudaFreeHost>;  // of the host

/// Does not wait for the default stream.
inline Stream make_stream() {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  return Stream(stream);
}

/// For streams to wait for.
inline Event make_event() {
  cudaEvent_t event;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  return Event(event);
}

/// For threads of the host to wait for: they sleep. By default CUDA keeps a processor busy with asking.
inline Event make_awaited_event() {
  cudaEvent_t event;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync), "creating an event");
  return Event(event);
}

/// One whose time can be asked for.
inline Event make_timer() {
  cudaEvent_t event;
  check(cudaEventCreate(&event), "creating an event");
  return Event(event);
}

/// Work queued on `later` from here on comes after all that is queued on `earlier`; the host waits for nothing.
inline void order_after(cudaStream_t later, cudaStream_t earlier, const Event& event) {
  check(cudaEventRecord(event.get(), earlier), "recording an event");
  check(cudaStreamWaitEvent(later, event.get(), 0), "letting a stream wait for another");
}

}  // namespace kvcal::cuda
