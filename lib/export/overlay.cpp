#include "export/overlay.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <span>
#include <string_view>

#include "base/read_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/weight_files.h"
#include "export/folder_files.h"
#include "export/json_edit.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr size_t kIndexBytes = size_t{512} << 20;

uint64_t bytes_of(const std::vector<ScaleTensor>& tensors) {
  uint64_t bytes = 0;
  for (const ScaleTensor& t : tensors) bytes += stored_bytes(t).size();
  return bytes;
}

std::vector<JsonMember> entries_of(const std::vector<ScaleTensor>& tensors) {
  std::vector<JsonMember> entries;
  for (const ScaleTensor& t : tensors) entries.push_back({t.name, kScaleShard});
  return entries;
}

/// Servers read every *.safetensors of a folder without an index, but only with one is it said which belong together.
TextFile new_index(const fs::path& shard, const std::vector<ScaleTensor>& tensors, const TensorNames& dropped) {
  const SafetensorsFile file(shard);
  uint64_t bytes = bytes_of(tensors);
  std::set<std::pair<std::string, std::string>> sorted;
  for (const TensorInfo& info : file.tensors()) {
    if (dropped.contains(info.name)) continue;
    bytes += info.bytes;
    sorted.insert({info.name, shard.filename().string()});
  }
  for (const ScaleTensor& t : tensors) sorted.insert({t.name, kScaleShard});
  Json map = Json::object();
  auto& members = map.get_ref<Json::object_t&>();
  for (const auto& [name, place] : sorted) members.emplace_back(name, place);
  return {"model.safetensors.index.json",
          Json{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}.dump(2) + "\n"};
}

uint64_t bytes_of(const fs::path& shard, const TensorNames& names) {
  const SafetensorsFile file(shard);
  uint64_t bytes = 0;
  for (const TensorInfo& info : file.tensors()) bytes += names.contains(info.name) ? info.bytes : 0;
  return bytes;
}

TextFile extended_index(const WeightFiles& weights, const std::vector<ScaleTensor>& tensors,
                        const TensorNames& dropped) {
  uint64_t lost = 0;
  if (!dropped.empty())
    for (const fs::path& shard : weights.shards) lost += bytes_of(shard, dropped);
  return while_doing(quoted(weights.index_path.string()), [&] {
    const std::string original = read_file(weights.index_path, kIndexBytes);
    const std::vector<std::string> map = {"weight_map"}, metadata = {"metadata"}, gone(dropped.begin(), dropped.end());
    std::string text = gone.empty() ? original : remove_json_members(original, map, gone);
    text = set_json_members(text, map, entries_of(tensors));
    const Json json = parse_json(original, {.max_bytes = kIndexBytes, .max_depth = 16});
    const Json* about = find_member(json, "metadata");
    const Json* size = about && about->is_object() ? find_member(*about, "total_size") : nullptr;
    if (size && size->is_number_integer()) {
      const std::vector<JsonMember> total = {{"total_size", size->get<uint64_t>() + bytes_of(tensors) - lost}};
      text = set_json_members(text, metadata, total);
    }
    return TextFile{weights.index_path.filename().string(), text};
  });
}

void write_shard(const fs::path& path, std::vector<ScaleTensor> tensors) {
  // Like every other file of the kind; transformers refuses one without it.
  SafetensorsWriter writer(path, Existing::Refuse, {{"format", "pt"}});
  std::ranges::sort(tensors, {}, &ScaleTensor::name);
  for (const ScaleTensor& t : tensors) writer.declare(t.name, t.dtype, t.shape);
  for (const ScaleTensor& t : tensors) writer.write(t.name, stored_bytes(t));
  writer.commit();
}

bool is_weights(const fs::path& path) {
  constexpr std::array<std::string_view, 10> kSuffixes = {".safetensors", ".bin", ".gguf", ".pt",      ".pth",
                                                          ".h5",          ".npz", ".onnx", ".msgpack", ".ot"};
  return std::ranges::find(kSuffixes, path.extension().string()) != kSuffixes.end();
}

/// "" when the file comes along.
std::string why_left_out(const fs::path& name) {
  const std::string first = name.begin()->string();
  if (first == ".git" || first == ".cache") return "metadata of a download";
  if (first.rfind("consolidated", 0) == 0)
    return "the same weights in the model maker's format, which vLLM would load instead, without scales";
  if (name.filename().string().ends_with(kOriginalSuffix)) return "kept there by an export in place";
  return "";
}

}  // namespace

std::vector<std::byte> stored_bytes(const ScaleTensor& tensor) {
  const std::span<const std::byte> floats = std::as_bytes(std::span(tensor.values));
  if (tensor.dtype == DType::F32) return {floats.begin(), floats.end()};
  std::vector<std::byte> bytes;
  for (const float value : tensor.values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TextFile index_with(const fs::path& source, const std::vector<ScaleTensor>& tensors, const TensorNames& dropped) {
  const WeightFiles weights = find_weight_files(source);
  return weights.index_path.empty() ? new_index(weights.shards.front(), tensors, dropped)
                                    : extended_index(weights, tensors, dropped);
}

std::vector<std::string> thinned_shards(const fs::path& source, const TensorNames& dropped) {
  std::vector<std::string> names;
  if (dropped.empty()) return names;
  for (const fs::path& shard : find_weight_files(source).shards)
    if (holds_any(shard, dropped)) names.push_back(shard.filename().string());
  return names;
}

namespace {

void note_if_outside(const FolderEntry& entry, const fs::path& source, OverlayReport& report) {
  if (const fs::path target = target_outside(entry.path, source); !target.empty())
    report.from_outside.push_back(printable(entry.name.string(), 200) + " is a link to " + quoted(target.string()));
}

}  // namespace

OverlayReport fill_overlay(const Overlay& overlay, const fs::path& into, Weights weights) {
  OverlayReport report = fill_additions(overlay, into);
  std::set<std::string> replaced = {kScaleShard, kExportRecord};
  for (const TextFile& file : overlay.files) replaced.insert(file.name);
  replaced.insert(overlay.thinned.begin(), overlay.thinned.end());
  replaced.insert(overlay.elsewhere.begin(), overlay.elsewhere.end());
  for (const FolderEntry& entry : folder_entries(overlay.source)) {
    if (replaced.contains(entry.name.string())) continue;
    if (const std::string why = why_left_out(entry.name); !why.empty()) {
      const std::string line = entry.name.begin()->string() + ": " + why;
      if (std::ranges::find(report.left_out, line) == report.left_out.end()) report.left_out.push_back(line);
      continue;
    }
    const fs::path to = into / entry.name;
    note_if_outside(entry, overlay.source, report);
    if (entry.is_folder) {
      make_folder(to);
    } else if (entry.is_folder_link) {
      ++(link_file(entry.path, to) ? report.hard_linked : report.symlinked);
    } else if (weights == Weights::Copy || !is_weights(entry.name)) {
      copy_file_durably(entry.path, to);
      ++report.copied;
    } else {
      ++(link_file(entry.path, to) ? report.hard_linked : report.symlinked);
    }
  }
  return report;
}

OverlayReport fill_additions(const Overlay& overlay, const fs::path& into) {
  for (const TextFile& file : overlay.files) write_file_atomically(into / file.name, file.text, Existing::Refuse);
  if (!overlay.tensors.empty()) write_shard(into / kScaleShard, overlay.tensors);
  OverlayReport report;
  report.written = overlay.files.size() + (overlay.tensors.empty() ? 0 : 1);
  for (const std::string& shard : overlay.thinned) {
    // One of scales alone, as an earlier export left it, has nothing that stays; its name may be taken already.
    if (copy_without(overlay.source / shard, overlay.dropped, into / shard)) ++report.written;
  }
  return report;
}

}  // namespace kvcal
