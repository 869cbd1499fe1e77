#include "tensor/tensor.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "base/error.h"

namespace kvcal {

constexpr size_t kAlignment = 64;  // one cache line, one AVX-512 register
constexpr size_t kHugePage = size_t{2} << 20;

static size_t rounded_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

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

void Storage::Free::operator()(void* p) const { std::free(p); }

Storage::Storage(const Shape& shape, DType dtype) {
  view_.shape = shape;
  view_.dtype = dtype;
  // A layer's weights would otherwise cost thousands of page faults, and misses ever after; an expert's are small, but
  // there are hundreds. Only where rounding up wastes no more than an eighth.
  const size_t needed = view_.bytes();
  const bool large_pages = needed > 0 && rounded_up(needed, kHugePage) - needed <= needed / 8;
  const size_t alignment = large_pages ? kHugePage : kAlignment;
  const size_t bytes = std::max(rounded_up(needed, alignment), alignment);
  memory_.reset(std::aligned_alloc(alignment, bytes));
  if (!memory_) fail("out of memory: " + std::to_string(bytes) + " bytes for a tensor " + str(view_));
#ifdef __linux__
  if (alignment == kHugePage) madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // a wish: may be refused
#endif
  view_.data = memory_.get();
}

}  // namespace kvcal
