// A line for each way of storing weights in fewer bits that a golden shows, and one of what is refused.
#include <filesystem>
#include <map>
#include <set>

#include "checkpoint/checkpoint.h"
#include "checkpoint/formats/stored_weight.h"
#include "checkpoint/quantization.h"
#include "documents/tables.h"

namespace kvcal::documents {
namespace {

namespace fs = std::filesystem;

struct Shown {
  std::set<std::string> methods, goldens;
};

/// The formats of all weights of a golden: their plain names and shapes are those of its expected tensors.
std::set<std::string> formats_in(const fs::path& folder, const Checkpoint& checkpoint) {
  const QuantizationFacts facts = read_quantization_facts(checkpoint);
  std::set<std::string> formats;
  const SafetensorsFile expected(folder / "expected.safetensors");
  for (const TensorInfo& info : expected.tensors())
    if (const auto stored = find_stored_weight({checkpoint, facts, info.name, info.shape}))
      formats.insert(std::string(stored->format));
  return formats;
}

std::map<std::string, Shown> read_goldens() {
  std::map<std::string, Shown> by_format;
  for (const auto& entry : fs::directory_iterator(fs::path(KVCAL_SOURCE_DIR) / "tests/unit/data/formats")) {
    const Checkpoint checkpoint = Checkpoint::open(entry.path());
    const QuantizationSummary said = describe_quantization(checkpoint.config(), entry.path());
    for (const std::string& format : formats_in(entry.path(), checkpoint)) {
      by_format[format].methods.insert("`" + said.method + "`");
      by_format[format].goldens.insert(entry.path().filename().string());
    }
  }
  return by_format;
}

std::string list(const std::set<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

/// Methods that published checkpoints name, and that is_readable() refuses.
std::string refused() {
  std::set<std::string> names;
  for (const char* method : {"aqlm",  "auto-round", "awq",        "bitsandbytes", "compressed-tensors",
                             "eetq",  "exl2",       "fbgemm_fp8", "fp8",          "gguf",
                             "gptq",  "higgs",      "hqq",        "mlx",          "modelopt",
                             "mxfp4", "quanto",     "quark",      "spqr",         "torchao",
                             "vptq"})
    if (!is_readable({true, method, "", "", "", ""})) names.insert("`" + std::string(method) + "`");
  return list(names);
}

}  // namespace

std::string table_of_weight_formats() {
  std::string text = "| format | `quant_method` | read | goldens |\n|---|---|---|---|\n";
  for (const auto& [format, shown] : read_goldens())
    text += "| " + format + " | " + list(shown.methods) + " | yes | " + list(shown.goldens) + " |\n";
  return text + "| others | " + refused() + " | refused by name | |\n";
}

}  // namespace kvcal::documents
