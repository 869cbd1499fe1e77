#include "tensor/arena.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace kvcal {

constexpr size_t kAlignment = 64;
constexpr int kPoisonByte = 0xFF;  // every float type reads 0xFF... as NaN

static unsigned char* end_of(const Tensor& t) { return static_cast<unsigned char*>(t.data) + t.bytes(); }

Tensor Arena::allocate(const Shape& shape, DType dtype) {
  Tensor t{nullptr, shape, dtype};
  const size_t guard = poison_ ? kAlignment : 0;
  const size_t bytes = std::max((t.bytes() + kAlignment - 1) / kAlignment * kAlignment, kAlignment) + guard;
  const auto fits = [&](const Block& b) { return b.storage.tensor().bytes() - b.used >= bytes; };
  while (current_ < blocks_.size() && !fits(blocks_[current_])) ++current_;
  if (current_ == blocks_.size()) {
    const size_t size = std::max(block_bytes_, bytes);
    blocks_.push_back({Storage({static_cast<int64_t>(size)}, DType::U8)});
    if (poison_) std::memset(blocks_.back().storage.tensor().data, kPoisonByte, size);
  }
  Block& block = blocks_[current_];
  t.data = static_cast<char*>(block.storage.tensor().data) + block.used;
  block.used += bytes;
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  if (poison_) {
    std::memset(end_of(t), kPoisonByte, guard);
    guarded_.push_back(t);
  }
  return t;
}

void Arena::check_ends() {
  const std::vector<Tensor> guarded = std::exchange(guarded_, {});
  for (const Tensor& t : guarded)
    if (std::any_of(end_of(t), end_of(t) + kAlignment, [](unsigned char byte) { return byte != kPoisonByte; }))
      fail("something was stored past the end of " + str(t));
}

void Arena::reset() {
  check_ends();
  // One block of the whole size instead of several: what did not fit the gaps of one batch must not add up over batches
  // of other shapes.
  if (blocks_.size() > 1) {
    size_t total = 0;
    for (const Block& b : blocks_) total += b.storage.tensor().bytes();
    blocks_.clear();
    blocks_.push_back({Storage({static_cast<int64_t>(total)}, DType::U8)});
  }
  for (Block& b : blocks_) {
    if (poison_) std::memset(b.storage.tensor().data, kPoisonByte, b.storage.tensor().bytes());
    b.used = 0;
  }
  current_ = in_use_ = 0;
}

}  // namespace kvcal
