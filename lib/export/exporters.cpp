#include <algorithm>
#include <array>

#include "export/exporter.h"
#include "export/targets.h"

namespace kvcal {

std::span<const Exporter> exporters() {
  static const std::array kExporters = {
      vllm_exporter(),     sglang_exporter(),    sglang_json_exporter(), modelopt_exporter(),
      tgi_exporter(),      quark_exporter(),     vllm_ascend_exporter(), vllm_ascend_mxfp8_exporter(),
      lightllm_exporter(), ort_genai_exporter(), plain_json_exporter(),  scale_file_exporter()};
  return kExporters;
}

const Exporter& find_exporter(std::string_view name) {
  std::vector<std::string> known;
  for (const Exporter& exporter : exporters()) {
    if (exporter.name == name) return exporter;
    known.emplace_back(exporter.name);
  }
  fail_unknown("target", name, known);
}

}  // namespace kvcal
