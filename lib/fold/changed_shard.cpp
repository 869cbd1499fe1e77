#include "fold/changed_shard.h"

#include <algorithm>

#include "base/atomic_file.h"
#include "base/error.h"

namespace kvcal {
namespace {

constexpr uint64_t kPiece = uint64_t{8} << 20;  // bytes, a multiple of every element

void check_fits(const TensorInfo& info, const TensorFold& fold) {
  if (!fits(info, fold))
    fail("tensor " + quoted(info.name) + " is " + str(info) + ", and the fold has " +
         std::to_string(fold.exponents.size()) + (fold.axis == Axis::Rows ? " rows" : " columns") +
         "; is its record from another checkpoint?");
}

void copy_range(const SafetensorsFile& shard, uint64_t begin, uint64_t end, AtomicFile& to) {
  std::vector<std::byte> piece;
  for (uint64_t at = begin; at < end; at += piece.size()) {
    piece.resize(std::min(end - at, kPiece));
    shard.read(at, piece);
    to.write(piece);
  }
}

void copy_tensor(const SafetensorsFile& shard, const TensorInfo& info, const std::vector<const TensorFold*>& folds,
                 Subnormals subnormals, AtomicFile& to) {
  std::vector<std::byte> piece;
  const uint64_t size = size_of(info.dtype);
  for (uint64_t done = 0; done < info.bytes; done += piece.size()) {
    piece.resize(std::min(info.bytes - done, kPiece));
    shard.read(info.offset + done, piece);
    for (const TensorFold* fold : folds)
      if (!multiply_part(*fold, info.dtype, info.bytes / size, done / size, piece, subnormals))
        fail("numbers of tensor " + quoted(info.name) + " do not take their powers of two exactly");
    to.write(piece);
  }
}

}  // namespace

std::vector<TensorFold> folds_in(const SafetensorsFile& shard, const std::vector<TensorFold>& folds) {
  std::vector<TensorFold> held;
  std::ranges::copy_if(folds, std::back_inserter(held), [&](const TensorFold& f) { return shard.find(f.name); });
  return held;
}

void write_changed(const SafetensorsFile& shard, const std::vector<TensorFold>& folds, const std::filesystem::path& to,
                   Subnormals subnormals) {
  std::vector<const TensorInfo*> changed;
  for (const TensorInfo& info : shard.tensors())
    if (std::ranges::any_of(folds, [&](const TensorFold& f) { return f.name == info.name; })) changed.push_back(&info);
  std::ranges::sort(changed, {}, &TensorInfo::offset);
  AtomicFile file(to, Existing::Refuse);
  uint64_t at = 0;
  for (const TensorInfo* info : changed) {
    std::vector<const TensorFold*> of_tensor;
    for (const TensorFold& f : folds)
      if (f.name == info->name) {
        check_fits(*info, f);
        of_tensor.push_back(&f);
      }
    copy_range(shard, at, info->offset, file);
    copy_tensor(shard, *info, of_tensor, subnormals, file);
    at = info->offset + info->bytes;
  }
  copy_range(shard, at, shard.file().size(), file);
  file.commit();
}

}  // namespace kvcal
