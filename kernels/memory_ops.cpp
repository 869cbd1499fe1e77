// What the CUDA backend does with memory: temporaries from an arena, the rest from a heap, both taken before a run.
#include <array>
#include <cstring>

#include "base/available_memory.h"
#include "base/error.h"
#include "kernels/cuda_backend.h"
#include "kernels/residual_rows.h"
#include "kernels/runtime/device.h"

namespace kvcal::cuda {
namespace {

// CUDA counts as taken there what the system keeps of files and would give up. A machine whose memory is all taken
// stops altogether: a part stays.
uint64_t shareable(uint64_t available) { return available - available / 100 * 15; }

}  // namespace

Tensor CudaBackend::temporary(const Shape& shape, DType dtype) { return arena_.allocate(shape, dtype); }

void CudaBackend::end_batch() { arena_.reset(); }

DeviceMemory CudaBackend::device_memory() const {
  DeviceMemory memory{.own = true,
                      .is_hosts = is_integrated(),
                      .free_bytes = 0,
                      .temporaries_peak = arena_.peak(),
                      .persistent_peak = heap_ ? heap_->peak() : 0};
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for the free memory of the device");
  memory.free_bytes = memory.is_hosts ? shareable(available_memory()) : free;
  return memory;
}

void CudaBackend::reserve(const MemoryReserve& bytes) {
  if (heap_ && heap_->size() >= bytes.persistent && arena_.reserved() >= bytes.temporaries) return;  // has it already
  if (heap_ && heap_->in_use() > 0)
    fail("the memory of a run cannot be taken anew while " + std::to_string(heap_->in_use()) + " bytes are in use");
  check(cudaStreamSynchronize(stream_.get()), "waiting for the device");
  heap_.reset();
  heap_.emplace(padded_bytes(bytes.persistent));
  arena_.reserve(bytes.temporaries);
}

Owned CudaBackend::uninitialised(const Shape& shape, DType dtype) {
  Tensor view{nullptr, shape, dtype, Device::Cuda};
  if (!heap_) {
    auto memory = std::make_shared<DeviceBytes>(allocate_bytes(view.bytes()));
    view.data = memory->get();
    return {view, std::shared_ptr<void>(memory, view.data)};
  }
  // Layers take turns at the ends: one is freed as a whole before the next but one is loaded.
  const bool high = reader_.collecting() && reader_.n_collected() % 2 == 1;
  std::shared_ptr<void> memory = heap_->allocate(view.bytes(), high ? DeviceHeap::End::High : DeviceHeap::End::Low);
  if (!memory)
    fail("there is no room for " + str(view) + ": " + std::to_string(heap_->in_use()) + " bytes are in use of the " +
         std::to_string(heap_->size()) +
         " that the memory plan took for weights, rows, states and statistics; the plan counts too little for this "
         "model");
  view.data = memory.get();
  return {view, std::move(memory)};
}

Owned CudaBackend::allocate(const Shape& shape, DType dtype) {
  Owned o = uninitialised(shape, dtype);
  if (o.view.bytes() > 0)
    check(cudaMemsetAsync(o.view.data, 0, o.view.bytes(), stream_.get()), "clearing " + str(o.view));
  return o;
}

std::unique_ptr<ResidualRows> CudaBackend::residual_rows(const ResidualShape& shape, ResidualPlace place) {
  if (place == ResidualPlace::Device)
    return std::make_unique<DeviceRows>(uninitialised({shape.n_tokens, shape.hidden}, activation_dtype()),
                                        stream_.get());
  const Shape stage{shape.most_rows, shape.hidden};
  return std::make_unique<PinnedRows>(
      shape, activation_dtype(),
      std::array{uninitialised(stage, activation_dtype()), uninitialised(stage, activation_dtype())}, stream_.get());
}

void CudaBackend::copy_small(void* to, const void* from, size_t bytes) {
  void* const staged = bytes > 0 ? staging_.take(bytes) : nullptr;
  if (staged) std::memcpy(staged, from, bytes);
  copy(to, staged ? staged : from, bytes, cudaMemcpyHostToDevice);
}

}  // namespace kvcal::cuda
