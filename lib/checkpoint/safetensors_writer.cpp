#include "checkpoint/safetensors_writer.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace kvcal {
namespace {

constexpr size_t kSealDigits = 64, kLengthBytes = 8;

/// Where in a header the digits of its seal stand; npos in one that this writer did not make. No text within a string
/// looks like that, as its quotes are escaped.
size_t digits_in(std::string_view header) {
  const std::string entry = "\"" + std::string(kSealKey) + "\":\"";
  const size_t at = header.find(entry);
  return at == header.npos || header.size() - at < entry.size() + kSealDigits ? header.npos : at + entry.size();
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, Existing existing, SafetensorsMetadata metadata,
                                     Seal seal)
    : file_(path, existing), metadata_(std::move(metadata)), seal_(seal) {
  if (seal_ == Seal::Sha256) metadata_[kSealKey] = std::string(kSealDigits, '0');
}

void SafetensorsWriter::put(std::span<const std::byte> bytes) {
  file_.write(bytes);
  const bool open = current_ < entries_.size() && entries_[current_].name.starts_with(kUnsealedPrefix);
  if (seal_ == Seal::Sha256 && (!header_written_ || !open)) sealed_.update(bytes);
}

void SafetensorsWriter::declare(std::string name, DType dtype, const Shape& shape) {
  if (header_written_) fail("tensor " + quoted(name) + " is declared after the first bytes were written");
  const uint64_t bits = static_cast<uint64_t>(shape.elements()) * static_cast<uint64_t>(bits_of(dtype));
  if (bits % 8 != 0) fail("tensor " + quoted(name) + " of " + str(shape) + " does not fill whole bytes");
  entries_.push_back({std::move(name), dtype, shape, bits / 8});
}

void SafetensorsWriter::write_header() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  Json header = Json::object();
  if (!metadata_.empty()) header["__metadata__"] = metadata_;
  auto& members = header.get_ref<Json::object_t&>();
  uint64_t offset = 0;
  for (const Entry& entry : entries_) {
    if (&entry != &entries_.front() && entry.name == (&entry - 1)->name)
      fail("tensor " + quoted(entry.name) + " is declared twice");
    Json description;
    description["dtype"] = name_of(entry.dtype);
    Json& shape = description["shape"] = Json::array();
    for (int i = 0; i < entry.shape.rank(); ++i) shape.push_back(entry.shape[i]);
    description["data_offsets"] = {offset, offset + entry.bytes};
    members.emplace_back(entry.name, std::move(description));
    offset += entry.bytes;
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length;
  for (int shift = 0; shift < 64; shift += 8) length += static_cast<char>(uint64_t{text.size()} >> shift & 0xFF);
  if (seal_ == Seal::Sha256) seal_at_ = kLengthBytes + digits_in(text);
  put(length);
  put(text);
  header_written_ = true;
  skip_finished();
}

void SafetensorsWriter::skip_finished() {
  while (current_ < entries_.size() && written_ == entries_[current_].bytes) {
    ++current_;
    written_ = 0;
  }
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (!header_written_) write_header();
  if (bytes.empty()) return;
  if (current_ == entries_.size() || entries_[current_].name != name)
    fail("bytes of tensor " + quoted(name) + " come when " +
         (current_ == entries_.size() ? "none" : quoted(entries_[current_].name)) + " is expected");
  if (bytes.size() > entries_[current_].bytes - written_)
    fail("tensor " + quoted(name) + " gets more than its " + std::to_string(entries_[current_].bytes) + " bytes");
  put(bytes);
  written_ += bytes.size();
  skip_finished();
}

void SafetensorsWriter::write(std::string_view name, const Tensor& tensor) {
  write(name, {static_cast<const std::byte*>(tensor.data), tensor.bytes()});
}

void SafetensorsWriter::commit() {
  if (!header_written_) write_header();
  if (current_ != entries_.size())
    fail("tensor " + quoted(entries_[current_].name) + " got " + std::to_string(written_) + " of its " +
         std::to_string(entries_[current_].bytes) + " bytes");
  if (seal_ == Seal::Sha256) file_.rewrite(seal_at_, sealed_.hex());
  file_.commit();
}

bool is_sealed(const SafetensorsFile& file) { return file.metadata().contains(kSealKey); }

void check_seal(const SafetensorsFile& file) {
  if (!is_sealed(file)) return;
  uint64_t data = file.file().size(), end = data;
  for (const TensorInfo& info : file.tensors()) {
    data = std::min(data, info.offset);
    if (info.name.starts_with(kUnsealedPrefix)) end = std::min(end, info.offset);
  }
  std::string header(data, '\0');
  file.read(0, std::as_writable_bytes(std::span(header.data(), header.size())));
  const std::string digest = file.metadata().at(kSealKey);
  const size_t at = digits_in(header);
  if (at != header.npos && digest.size() == kSealDigits) header.replace(at, kSealDigits, kSealDigits, '0');
  Sha256 found;
  found.update(header);
  std::vector<std::byte> piece(size_t{1} << 20);
  for (uint64_t offset = data; offset < end; offset += piece.size()) {
    const auto part = std::span(piece).first(std::min<uint64_t>(piece.size(), end - offset));
    file.read(offset, part);
    found.update(part);
  }
  if (found.hex() != digest)
    fail("is damaged: the SHA-256 of its content is " + found.hex().substr(0, 16) + ", it says " +
         quoted(digest.substr(0, 16)) + "; was it changed or copied badly?");
}

}  // namespace kvcal
