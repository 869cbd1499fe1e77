// JSON is read as far as it goes: the head of a large file ends anywhere, and a truncated file is still of its kind.
#include "base/file_kind.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <utility>

#include "base/json.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHeadBytes = size_t{4} << 20;
constexpr size_t kPageHead = 1024;
constexpr std::string_view kPageTitle = "<title>KV cache of ";  // of lib/report
constexpr size_t kMostKeys = 64;                                // of the outermost object: more say nothing new

/// Names of the outermost object's members, or of those of the first object in an array, until a value is wrong.
class MemberNames final : public nlohmann::json_sax<Json> {
 public:
  std::set<std::string, std::less<>> keys, metadata;  // metadata: of the member __metadata__
  std::string format, schema;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool string(string_t& value) override {
    if (depth_ == 1 && key_ == "format") format = value;
    if (depth_ == 1 && key_ == "$schema") schema = value;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 2 && key_ == "__metadata__") metadata.insert(name);
    if (depth_ != 1) return metadata.size() < kMostKeys;
    key_ = name;
    keys.insert(name);
    return keys.size() < kMostKeys;
  }
  bool start_object(size_t) override { return ++depth_, true; }
  bool end_object() override { return --depth_ > 0; }
  bool start_array(size_t) override {
    // A list of records is looked into.
    if (depth_ > 0 || std::exchange(is_list_, true)) ++depth_;
    return true;
  }
  bool end_array() override { return --depth_ > 0; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  bool has(std::string_view name) const { return keys.contains(name); }
  bool has_any(std::initializer_list<std::string_view> names) const {
    return std::ranges::any_of(names, [&](std::string_view name) { return has(name); });
  }

 private:
  int depth_ = 0;  // of what is open, without the list
  bool is_list_ = false;
  std::string key_;
};

MemberNames members_of(std::string_view json) {
  MemberNames found;
  static_cast<void>(Json::sax_parse(json.begin(), json.end(), &found, Json::input_format_t::json, false));
  return found;
}

/// Members that only this kind has together.
struct Signature {
  FileKind kind;
  std::string_view one, other = {};
};

// The first that fits says what a file is: a scale file of a server may name the model's class, as its config.json
// does.
constexpr Signature kSignatures[] = {
    {FileKind::ValidateReport, "findings", "evaluated"},
    {FileKind::CommandOutput, "scales_sha256"},
    {FileKind::CommandOutput, "statistics_sha256"},
    {FileKind::CommandOutput, "plan_sha256"},
    {FileKind::CommandOutput, "kv_bytes_per_token"},
    {FileKind::CommandOutput, "tokenizer_sha256"},
    {FileKind::CommandOutput, "within", "sites"},
    {FileKind::CommandOutput, "findings", "not_evaluated"},
    {FileKind::CommandOutput, "skip_layers", "snippet"},
    {FileKind::CommandOutput, "id", "does_not_prove"},
    {FileKind::CommandOutput, "rule", "needs"},
    {FileKind::PlainScales, "convention", "modules"},
    {FileKind::LightllmScales, "quant_type", "num_layers"},
    {FileKind::OrtGenaiScales, "layer_ids", "qmax"},
    {FileKind::Weights, "weight_map"},
    {FileKind::Adapter, "target_modules"},
    {FileKind::Adapter, "peft_type"},
    {FileKind::Config, "architectures"},
    {FileKind::SglangScales, "kv_cache"},
    {FileKind::SglangScales, "scaling_factor"},
    {FileKind::Config, "model_type"},
    {FileKind::ModelFile, "added_tokens", "model"},
    {FileKind::ModelFile, "tokenizer_class"},
    {FileKind::ModelFile, "added_tokens_decoder"},
    {FileKind::ModelFile, "chat_template"},
    {FileKind::ModelFile, "eos_token"},
    {FileKind::ModelFile, "eos_token_id"},
    {FileKind::ModelFile, "transformers_version"},
    {FileKind::ModelFile, "image_processor_type"},
    {FileKind::ModelFile, "feature_extractor_type"},
    {FileKind::ModelFile, "processor_class"},
    {FileKind::ModelFile, "producer", "quantization"},
};

FileKind kind_of_json(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, FileKind>, 5> kFormats = {{
      {"kv-cache-scales", FileKind::ScaleFile},
      {"kv-cache-evaluation", FileKind::Evaluation},
      {"kvcal-export", FileKind::ExportRecord},
      {"kvcal-fold", FileKind::FoldRecord},
      {"kvcal-stats", FileKind::CommandOutput},
  }};
  const MemberNames found = members_of(text);
  for (const auto& [format, kind] : kFormats)
    if (found.format == format) return found.has("bytes_rewritten") ? FileKind::CommandOutput : kind;
  if (found.schema.starts_with("kv-cache-scales.")) return FileKind::ScaleFile;
  if (found.schema.starts_with("evaluation.")) return FileKind::Evaluation;
  if (found.schema.find("sarif") != found.schema.npos) return FileKind::ValidateReport;
  if (!found.format.empty()) return FileKind::Unknown;
  // Requests to servers, their answers and logs have such members, too.
  if (found.has_any({"messages", "conversations", "input_ids", "text", "prompt"}) &&
      !found.has_any({"model", "choices", "meta_info", "record", "level"}))
    return FileKind::Prompts;
  const auto fits = [&](const Signature& s) { return found.has(s.one) && (s.other.empty() || found.has(s.other)); };
  const auto signature = std::ranges::find_if(kSignatures, fits);
  return signature == std::end(kSignatures) ? FileKind::Unknown : signature->kind;
}

/// Eight bytes of length, then a JSON object.
FileKind kind_of_safetensors(std::string_view head) {
  const MemberNames found = members_of(head.substr(8));
  if (found.metadata.contains("kvcal_resume")) return FileKind::RunState;
  // A damaged file may have lost either name.
  if (found.metadata.contains("kvcal") || head.find("kvcal_sha256") != std::string_view::npos)
    return FileKind::Statistics;
  return FileKind::Weights;
}

/// A zip file that begins with the pickle of a state dict, or the older form, a pickle of torch's own number.
bool is_torch_pickle(std::string_view head) {
  constexpr std::string_view kNumber = "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19";
  constexpr size_t kFirstName = 128;
  return head.starts_with(kNumber) ||
         (head.starts_with("PK\x03\x04") && head.substr(0, kFirstName).find("data.pkl") != head.npos);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

FileKind kind_of_folder(const fs::path& folder) {
  std::error_code ignored;
  if (is_file(folder / "config.json") || fs::is_directory(folder / "snapshots", ignored)) return FileKind::ModelFolder;
  if (is_file(folder / "adapter_config.json")) return FileKind::Adapter;
  if (is_file(folder / "a.kvresume") || is_file(folder / "b.kvresume")) return FileKind::RunState;
  return FileKind::Unknown;
}

}  // namespace

std::string_view name_of(FileKind kind) {
  constexpr std::array<std::string_view, 24> kNames = {
      "of no known kind",
      "a scale file",
      "a statistics file",
      "an evaluation",
      "a prompt file",
      "a model's config.json",
      "a model folder",
      "a part of a checkpoint",
      "a GGUF model",
      "PyTorch's pickled weights",
      "a LoRA adapter",
      "a model's tokenizer or settings",
      "a scale file of SGLang (export --to sglang-json)",
      "a scale file of LightLLM (export --to lightllm)",
      "a scale file of onnxruntime-genai (export --to ort-genai)",
      "a map of scales for scripts (export --to json)",
      "the record of an export",
      "the record of a fold",
      "the state of an interrupted run (--resume)",
      "a report of 'kvcal validate'",
      "a page of 'kvcal report'",
      "what a verb of this program prints (--json)",
      "compressed (gzip or zstd)",
      "a Git LFS pointer, not the file itself",
  };
  return kNames.at(static_cast<size_t>(kind));
}

bool is_of_model(FileKind kind) {
  using enum FileKind;
  constexpr std::array kOfModel = {Config, Weights, Gguf, Pickle, Adapter, ModelFile};
  return std::ranges::find(kOfModel, kind) != kOfModel.end();
}

bool is_output(FileKind kind) {
  using enum FileKind;
  constexpr std::array kOutputs = {ScaleFile,      Statistics,     Evaluation,   SglangScales,
                                   LightllmScales, OrtGenaiScales, PlainScales,  RunState,
                                   ValidateReport, ReportPage,     CommandOutput};
  return std::ranges::find(kOutputs, kind) != kOutputs.end();
}

FileKind kind_of_bytes(std::string_view head) {
  head = head.substr(0, kHeadBytes);
  if (head.starts_with("GGUF")) return FileKind::Gguf;
  if (is_torch_pickle(head)) return FileKind::Pickle;
  if (head.starts_with("\x1F\x8B") || head.starts_with("\x28\xB5\x2F\xFD")) return FileKind::Compressed;
  if (head.starts_with("version https://git-lfs")) return FileKind::LfsPointer;
  if (head.size() > 8 && head[8] == '{' && head[7] == '\0') return kind_of_safetensors(head);
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);  // a byte order mark
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  if (head.starts_with("{") || head.starts_with("[")) return kind_of_json(head);
  const bool is_page = head.starts_with("<!DOCTYPE html") && head.substr(0, kPageHead).find(kPageTitle) != head.npos;
  return is_page ? FileKind::ReportPage : FileKind::Unknown;
}

FileKind kind_of_file(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return kind_of_folder(path);
  if (!is_file(path)) return FileKind::Unknown;
  std::ifstream file(path, std::ios::binary);
  std::string head(std::min<uintmax_t>(fs::file_size(path, ignored), kHeadBytes), '\0');
  if (ignored || !file.read(head.data(), static_cast<std::streamsize>(head.size()))) return FileKind::Unknown;
  return kind_of_bytes(head);
}

std::string other_kind(const std::string& name, FileKind kind, std::string_view expected) {
  return quoted(name) + " is " + std::string(name_of(kind)) + ", expected " + std::string(expected) +
         (kind == FileKind::Gguf         ? std::string(kNoGguf)
          : kind == FileKind::LfsPointer ? "; 'git lfs pull' gets it"
                                         : "");
}

void expect_kind(FileKind wanted, std::string_view expected, const fs::path& path) {
  const FileKind kind = kind_of_file(path);
  if (kind != wanted && kind != FileKind::Unknown) fail(other_kind(path.string(), kind, expected));
}

}  // namespace kvcal
