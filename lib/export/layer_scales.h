// The scales of an artifact by attention module, and the reasons not to write them.
#pragma once

#include <string>
#include <vector>

#include "export/exporter.h"

namespace kvcal {

/// One value each, one per head, or (key and value) one per channel.
struct LayerScales {
  int layer = 0, owner = 0;  // owner: the layer whose cache it reads, itself unless it shares one
  std::string module;        // with the checkpoint's prefix: "model.layers.3.self_attn"
  std::vector<float> key, value, query;
};

/// Of every attention module, by layer. A module that reads another layer's cache has that layer's scales, since both
/// vLLM and SGLang give it a scale of its own to read with (vLLM kv_sharing_target_layer_name, SGLang
/// models/gemma4_causal.py). Layers with latent attention are not among them.
std::vector<LayerScales> layer_scales(const Artifact& artifact, const ModelIdentity& model, Granularity granularity);

/// Of MTP layers that the scale file and the checkpoint have. Throws Error where they differ. Without latent attention.
std::vector<LayerScales> mtp_layer_scales(const Artifact& artifact, const ModelIdentity& model,
                                          Granularity granularity);

/// Throws Error, each with a way out, when the artifact is of another model (fingerprint not listed in also_valid_for,
/// config, layers, names, shapes), lacks a layer that owns a cache, or has one that owns none.
void check_fits(const Artifact& artifact, const ModelIdentity& model);

/// Throws when a layer is assessed as keep16 and the options neither skip nor allow it.
void check_fitness(const Artifact& artifact, const ExportOptions& options);

/// Layers that the server is to keep in the model's dtype.
std::vector<int> skipped_layers(const Artifact& artifact, const ExportOptions& options);

/// Throws where there are such layers and the target's server cannot.
void check_can_keep(const Exporter& exporter, const std::vector<int>& kept, const std::string& architecture);

/// Throws unless the artifact's number format is one of these.
void check_format(const Artifact& artifact, std::initializer_list<std::string_view> formats, const std::string& why);

/// Throws unless its granularity is one scale per tensor.
void check_per_tensor(const Artifact& artifact, const std::string& who);

/// Throws where it is one scale per channel.
void check_no_channels(const Artifact& artifact, const std::string& who);

/// "0-2, 5"
std::string layer_list(const std::vector<int>& layers);

}  // namespace kvcal
