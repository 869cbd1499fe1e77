#include "evaluate/resume.h"

#include "base/number_text.h"
#include "base/sha256.h"

namespace kvcal {
namespace {

void append(std::string& text, const std::vector<float>& scales) {
  for (const float scale : scales) text += shortest_float(scale) + " ";
  text += "; ";
}

std::string text_of(const Variant& variant) {
  std::string text = variant.name + " " + variant.format + " state " + std::string(name_of(variant.state)) + "\n";
  for (const CacheSites& sites : variant.caches) {
    for (const auto* site : {&sites.key, &sites.value, &sites.query}) {
      if (!*site) {
        text += "as it is; ";
        continue;
      }
      text += std::to_string(static_cast<int>((*site)->format)) + ": ";
      append(text, (*site)->write);
      append(text, (*site)->read);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

void EvaluationFolder::write_file(int slot, const Tensors& rows, const SafetensorsMetadata& metadata) {
  SafetensorsWriter writer(file(slot), Existing::Replace, metadata);
  for (const auto& [name, tensor] : rows) writer.declare(name, tensor.dtype, tensor.shape);
  for (const auto& [name, tensor] : rows) writer.write(name, tensor);
  writer.commit();
}

std::string digest_of(const std::vector<Variant>& variants) {
  std::string all;
  for (const Variant& variant : variants) all += text_of(variant);
  return sha256_hex(all);
}

}  // namespace kvcal
