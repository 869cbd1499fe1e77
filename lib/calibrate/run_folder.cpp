#include "calibrate/run_folder.h"

#include <array>
#include <cstdio>

#include "base/checksum.h"
#include "base/error.h"
#include "base/read_file.h"
#include "checkpoint/safetensors.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetadataKey = "kvcal_resume";
constexpr std::array kSlots = {"a.kvresume", "b.kvresume"};

/// In order of names as of numbers.
std::string name_of_rows(std::string_view prefix, size_t i) {
  char number[32];
  std::snprintf(number, sizeof number, "%06zu", i);
  return std::string(prefix) + number;
}

std::span<const std::byte> bytes_of(const Tensor& t) { return {static_cast<const std::byte*>(t.data), t.bytes()}; }

/// "calibration.isa is 'avx2' there, 'amx' here" for the first difference, "" for none.
std::string difference(const Json& there, const Json& here, const std::string& where) {
  if (there == here) return "";
  const auto text = [](const Json& j) { return quoted(j.dump(-1, ' ', true, Json::error_handler_t::replace)); };
  if (here.is_object() && there.is_object())
    for (const auto& [key, value] : here.items()) {
      const std::string path = where.empty() ? key : where + "." + key;
      if (!there.contains(key)) return path + " is missing there";
      if (std::string found = difference(there[key], value, path); !found.empty()) return found;
    }
  return where + " is " + text(there) + " there, " + text(here) + " here";
}

std::string checksum_in(const SafetensorsFile& file, std::string_view prefix) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;  // a multiple of 8, so that pieces do not change the sum
  Checksum sum;
  std::vector<std::byte> buffer(kPiece);
  for (size_t i = 0; const TensorInfo* info = file.find(name_of_rows(prefix, i)); ++i)
    for (uint64_t at = 0; at < info->bytes; at += kPiece) {
      const auto piece = std::span(buffer).first(std::min(kPiece, info->bytes - at));
      file.read(info->offset + at, piece);
      sum.update(piece);
    }
  return std::to_string(sum.value());
}

}  // namespace

RunFolder::RunFolder(fs::path folder, Json identity, NoticeListener& listener)
    : folder_(std::move(folder)), identity_(std::move(identity)), listener_(listener) {
  std::error_code error;
  fs::create_directory(folder_, error);
  if (error) fail("cannot save the state of the run in " + quoted(folder_.string()) + ": " + errno_text(error.value()));
  remove_temporaries();
}

void RunFolder::look() {
  for (int slot = 0; slot < static_cast<int>(kSlots.size()); ++slot)
    if (const int done = read(slot); done > layers_done_) {
      layers_done_ = done;
      newest_ = slot;
    }
  check_writable(file(1 - newest_), Existing::Replace);
}

fs::path RunFolder::file(int slot) const { return folder_ / kSlots[static_cast<size_t>(slot)]; }

int RunFolder::read(int slot) {
  const fs::path path = file(slot);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return 0;
  Json state;
  int layers_done = 0;
  try {
    const SafetensorsFile container(path);
    const auto metadata = container.metadata().find(kMetadataKey);
    if (metadata == container.metadata().end()) fail(quoted(path.string()) + ": has no entry " + kMetadataKey);
    state = parse_json(metadata->second);
    layers_done = static_cast<int>(get_int(state, "layers_done"));
    while_doing(quoted(path.string()), [&] { check_seal(container); });
    if (get_string(state, "rows_checksum") != checksum_in(container, kRowsPrefix))
      fail(quoted(path.string()) + ": checksum mismatch");
    read_rest(slot);
  } catch (const Error& e) {
    warn("ignoring a damaged file of an earlier run: " + std::string(e.what()));
    return 0;
  }
  const Json* theirs = find_member(state, "run");
  if (const std::string other = difference(theirs ? *theirs : Json(), identity_, ""); !other.empty())
    fail(quoted(path.string()) + " belongs to another run: " + other + "; finish that run or remove " +
         quoted(folder_.string()));
  return layers_done;
}

std::vector<std::byte> RunFolder::bytes_of_rest(const std::string& name) const {
  const SafetensorsFile container(file(newest_));
  const TensorInfo* info = container.find(name);
  if (!info) fail(quoted(container.path().string()) + ": " + name + " is missing");
  std::vector<std::byte> bytes(info->bytes);
  container.read(info->offset, bytes);
  return bytes;
}

void RunFolder::restore(std::span<const Tensor> rows) {
  const SafetensorsFile container(file(newest_));
  for (size_t i = 0; i < rows.size(); ++i) {
    const TensorInfo* info = container.find(name_of_rows(kRowsPrefix, i));
    if (!info || info->dtype != rows[i].dtype || !(info->shape == rows[i].shape))
      fail(quoted(container.path().string()) + ": " + name_of_rows(kRowsPrefix, i) + " is " +
           (info ? str(*info) : "missing") + ", expected " + str(rows[i]));
    container.read(info->offset, {static_cast<std::byte*>(rows[i].data), rows[i].bytes()});
  }
}

void RunFolder::save(int layers_done, std::span<const Tensor> rows) {
  const int slot = 1 - newest_;
  try {
    write(slot, layers_done, rows);
    newest_ = slot;
  } catch (const Error& e) {
    if (!std::exchange(warned_, true))
      warn("if interrupted, this run can be resumed only from an earlier layer: " + std::string(e.what()));
  }
}

void RunFolder::write(int slot, int layers_done, std::span<const Tensor> rows) {
  // The older of two files makes room first: there are never three.
  std::error_code ignored;
  fs::remove(file(slot), ignored);
  Tensors tensors;
  Checksum sum;
  for (size_t i = 0; i < rows.size(); ++i) {
    tensors.emplace_back(name_of_rows(kRowsPrefix, i), rows[i]);
    sum.update(bytes_of(rows[i]));
  }
  const Json state = {{"layers_done", layers_done}, {"rows_checksum", std::to_string(sum.value())}, {"run", identity_}};
  write_file(slot, tensors, {{kMetadataKey, state.dump()}});
}

void RunFolder::announce(size_t n_layers) const {
  if (layers_done_ > 0)
    listener_.hear(Notice::Note, "resuming after layer " + std::to_string(layers_done_) + " of " +
                                     std::to_string(n_layers) + ", from " + quoted(folder_.string()));
}

void RunFolder::remove_temporaries() const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".kvcal-") && name.ends_with(".tmp")) fs::remove(entry.path(), ignored);
  }
}

void RunFolder::remove() {
  std::error_code error;
  for (const int slot : {0, 1}) fs::remove(file(slot), error);
  remove_temporaries();
  fs::remove(folder_, error);
  if (error) warn("cannot remove " + quoted(folder_.string()) + ": " + errno_text(error.value()));
}

}  // namespace kvcal
