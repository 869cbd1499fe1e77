#include "checkpoint/safetensors_writer.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace kvcal {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, Existing existing, SafetensorsMetadata metadata)
    : file_(path, existing), metadata_(std::move(metadata)) {}

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
  file_.write(length);
  file_.write(text);
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
  file_.write(bytes);
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
  file_.commit();
}

}  // namespace kvcal
