#include "tensor/tensor.h"

#include <array>

#include "base/error.h"
#include "tensor/block_pool.h"

namespace kvcal {

std::string str(const Shape& shape) {
  std::string s = "[";
  for (int i = 0; i < shape.rank(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + "]";
}

std::string str(const Tensor& tensor) { return std::string(name_of(tensor.dtype)) + " " + str(tensor.shape); }

Tensor Tensor::reshaped(const Shape& s) const {
  assert(s.elements() == elements());
  Tensor t = *this;
  t.shape = s;
  return t;
}

Tensor Tensor::rows(int64_t from, int64_t n) const {
  assert(shape.rank() >= 1 && from >= 0 && n >= 0 && from + n <= dim(0));
  std::array<int64_t, Shape::kMaxRank> extents{};
  for (int i = 0; i < shape.rank(); ++i) extents[static_cast<size_t>(i)] = shape[i];
  extents[0] = n;
  Tensor t = *this;
  t.shape = Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(shape.rank())));
  const int64_t row = dim(0) > 0 ? elements() / dim(0) : 0;
  t.data = static_cast<char*>(data) + static_cast<size_t>(from * row) * size_of(dtype);
  return t;
}

void FreeBlock::operator()(void* memory) const { block_pool().give_back({memory, bytes}); }

Storage::Storage(const Shape& shape, DType dtype) {
  view_.shape = shape;
  view_.dtype = dtype;
  const BlockPool::Block block = block_pool().take(view_.bytes());
  if (!block.memory) fail("out of memory: " + std::to_string(block.bytes) + " bytes for a tensor " + str(view_));
  memory_ = {block.memory, FreeBlock{block.bytes}};
  view_.data = block.memory;
}

}  // namespace kvcal
