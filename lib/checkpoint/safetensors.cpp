#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/json.h"

namespace kvcal {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxInt64 = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

uint64_t unsigned_of(const Json& value, const char* what) {
  if (!value.is_number_unsigned())
    fail(std::string(what) + " is " + quoted(value.dump(-1, ' ', true, Json::error_handler_t::replace)) +
         ", expected a whole number that is not negative");
  return value.get<uint64_t>();
}

Shape shape_of(const Json* value) {
  if (!value || !value->is_array()) fail("has no list 'shape'");
  if (value->size() > Shape::kMaxRank)
    fail("has " + std::to_string(value->size()) + " dimensions, expected at most " + std::to_string(Shape::kMaxRank));
  std::vector<int64_t> extents;
  uint64_t elements = 1;
  for (const Json& extent : *value) {
    const uint64_t n = unsigned_of(extent, "an extent of its shape");
    // In this order, so that Shape::elements() cannot overflow either.
    if (n > kMaxInt64 || __builtin_mul_overflow(elements, n, &elements) || elements > kMaxInt64)
      fail("has a shape with more than 2^63 elements");
    extents.push_back(static_cast<int64_t>(n));
  }
  return Shape(extents);
}

uint64_t bytes_of(const Shape& shape, DType dtype) {
  uint64_t bits = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(shape.elements()), static_cast<uint64_t>(bits_of(dtype)), &bits))
    fail("has a shape with more than 2^64 bits");
  if (bits % 8 != 0) fail("does not fill whole bytes");
  return bits / 8;
}

DType dtype_of(const Json* value) {
  if (!value || !value->is_string()) fail("has no string 'dtype'");
  const std::string& name = value->get_ref<const std::string&>();
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype) fail("has the dtype " + quoted(name) + ", which is not supported");
  return *dtype;
}

/// One entry; offsets stay relative to the data section until the layout is checked.
TensorInfo tensor_of(const std::string& name, const Json& entry, uint64_t data_bytes) {
  if (!entry.is_object()) fail("is described by something other than an object");
  TensorInfo info;
  info.name = name;
  info.dtype = dtype_of(find_member(entry, "dtype"));
  info.shape = shape_of(find_member(entry, "shape"));
  const Json* offsets = find_member(entry, "data_offsets");
  if (!offsets || !offsets->is_array() || offsets->size() != 2) fail("has no list 'data_offsets' of two numbers");
  const uint64_t begin = unsigned_of((*offsets)[0], "its first offset");
  const uint64_t end = unsigned_of((*offsets)[1], "its second offset");
  const std::string range = "[" + std::to_string(begin) + ", " + std::to_string(end) + "]";
  if (begin > end) fail("has offsets " + range + ", expected ascending ones");
  if (end > data_bytes)
    fail("has offsets " + range + ", but only " + std::to_string(data_bytes) +
         " bytes of data are in the file; was the download complete?");
  info.offset = begin;
  info.bytes = end - begin;
  if (const uint64_t expected = bytes_of(info.shape, info.dtype); expected != info.bytes)
    fail("has " + std::to_string(info.bytes) + " bytes at offsets " + range + ", expected " + std::to_string(expected) +
         " for " + str(info));
  return info;
}

void read_metadata(const Json& entry, std::map<std::string, std::string>& out) {
  if (entry.is_null()) return;
  if (!entry.is_object()) fail("safetensors header: '__metadata__' is not an object");
  for (const auto& member : entry.items()) {
    if (!member.value().is_string())
      fail("safetensors header: '__metadata__' entry " + quoted(member.key()) + " is not a string");
    out.emplace(member.key(), member.value().get<std::string>());
  }
}

/// Back to back from the first byte to the last: what the format demands, and what excludes overlaps.
void check_layout(const std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  std::vector<const TensorInfo*> by_offset;
  for (const TensorInfo& info : tensors) by_offset.push_back(&info);
  std::sort(by_offset.begin(), by_offset.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->offset, a->offset + a->bytes) < std::pair(b->offset, b->offset + b->bytes);
  });
  uint64_t end = 0;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo* info : by_offset) {
    if (info->offset < end)
      fail("tensor " + quoted(info->name) + " overlaps tensor " + quoted(previous->name) + " by " +
           std::to_string(end - info->offset) + " bytes");
    if (info->offset > end)
      fail("tensor " + quoted(info->name) + " begins at " + std::to_string(info->offset) + ", expected " +
           std::to_string(end) + ": the format allows no gaps");
    end = info->offset + info->bytes;
    previous = info;
  }
  if (end != data_bytes)
    fail("the tensors end at byte " + std::to_string(end) + " of the data, but the file has " +
         std::to_string(data_bytes) + " bytes of data; has something been appended?");
}

}  // namespace

std::string str(const TensorInfo& info) { return std::string(name_of(info.dtype)) + " " + str(info.shape); }

uint64_t safetensors_header_bytes(std::span<const std::byte> first_bytes, uint64_t file_bytes) {
  if (file_bytes < kLengthBytes || first_bytes.size() < kLengthBytes)
    fail("has " + std::to_string(file_bytes) + " bytes, too short for a safetensors file; was the download complete?");
  if (std::memcmp(first_bytes.data(), "version ", kLengthBytes) == 0)
    fail("is a Git LFS pointer, not the file itself; run 'git lfs pull'");
  uint64_t bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) bytes |= std::to_integer<uint64_t>(first_bytes[i]) << (8 * i);
  if (bytes > kMaxSafetensorsHeaderBytes)
    fail("claims a header of " + std::to_string(bytes) + " bytes, expected at most " +
         std::to_string(kMaxSafetensorsHeaderBytes) + "; is it a safetensors file?");
  if (bytes > file_bytes - kLengthBytes)
    fail("claims a header of " + std::to_string(bytes) + " bytes, but has only " + std::to_string(file_bytes) +
         "; was the download complete?");
  return bytes;
}

SafetensorsHeader parse_safetensors_header(std::string_view header, uint64_t file_bytes) {
  // Ten values per tensor: more than four million of them is no checkpoint, and would cost gigabytes.
  const JsonLimits limits{.max_bytes = kMaxSafetensorsHeaderBytes, .max_depth = 8, .max_values = size_t{4} << 20};
  if (header.empty() || header.front() != '{') fail("safetensors header: does not begin with '{'");
  const Json json = while_doing("safetensors header", [&] { return parse_json(header, limits); });
  const uint64_t data_offset = kLengthBytes + header.size();
  if (data_offset > file_bytes) fail("safetensors header: longer than the file");
  const uint64_t data_bytes = file_bytes - data_offset;

  SafetensorsHeader result;
  for (const auto& member : json.items()) {
    if (member.key() == "__metadata__") {
      read_metadata(member.value(), result.metadata);
    } else {
      result.tensors.push_back(while_doing("tensor " + quoted(member.key()),
                                           [&] { return tensor_of(member.key(), member.value(), data_bytes); }));
    }
  }
  check_layout(result.tensors, data_bytes);
  for (TensorInfo& info : result.tensors) info.offset += data_offset;
  std::sort(result.tensors.begin(), result.tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  return result;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, MappedFile::Access access) : file_(path, access) {
  header_ = while_doing(quoted(path.string()), [&] {
    // Read, not mapped: a file cut short meanwhile gives an error instead of a signal.
    std::byte first[kLengthBytes]{};
    if (file_.size() >= kLengthBytes) file_.read(0, first);
    std::string header(safetensors_header_bytes(first, file_.size()), '\0');
    file_.read(kLengthBytes, std::as_writable_bytes(std::span(header.data(), header.size())));
    return parse_safetensors_header(header, file_.size());
  });
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto it = std::lower_bound(header_.tensors.begin(), header_.tensors.end(), name,
                                   [](const TensorInfo& info, std::string_view n) { return info.name < n; });
  return it != header_.tensors.end() && it->name == name ? &*it : nullptr;
}

Tensor SafetensorsFile::tensor(const TensorInfo& info) const {
  // Null means "absent", which an empty tensor is not.
  static std::byte nothing[64];
  Tensor tensor;
  tensor.shape = info.shape;
  tensor.dtype = info.dtype;
  tensor.data = nothing;
  if (info.bytes == 0) return tensor;
  const size_t alignment = std::max<size_t>(static_cast<size_t>(bits_of(info.dtype)) / 8, 1);
  tensor.data = const_cast<std::byte*>(file_.range(info.offset, info.bytes, alignment).data());
  return tensor;
}

}  // namespace kvcal
