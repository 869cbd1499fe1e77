// One function per target, each in its own file; only the table in exporters.cpp calls them.
#pragma once

#include "export/exporter.h"

namespace kvcal {

Exporter vllm_exporter();
Exporter sglang_exporter();
Exporter sglang_json_exporter();
Exporter modelopt_exporter();
Exporter tgi_exporter();
Exporter quark_exporter();
Exporter vllm_ascend_exporter();
Exporter vllm_ascend_mxfp8_exporter();
Exporter lightllm_exporter();
Exporter ort_genai_exporter();
Exporter plain_json_exporter();
Exporter scale_file_exporter();

/// config.json of a Quark checkpoint whose key and value projections are quantized into the cache.
TextFile quark_config(const ExportInput& input);

}  // namespace kvcal
