#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "vision/image_formats.h"

namespace kvcal {
namespace {

// Without loss, as transparency is, too, a file may have a table of codes for every few pixels, which the decoder makes
// seventy times as large.
constexpr size_t kMostLossless = size_t{4} << 20;
constexpr int kLossless = 2;  // WebPBitstreamFeatures::format

struct DemuxerDeleter {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

/// Of the EXIF chunk, into which some programs write JPEG's name of it, too.
int orientation_of(const WebPDemuxer* demuxer) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  WebPChunkIterator chunk;
  if (!WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) return 1;
  std::string_view tiff(reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size);
  if (tiff.starts_with(kExif)) tiff.remove_prefix(kExif.size());
  const int orientation = exif_orientation(tiff);
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

/// Of [height, width, 3] bytes in `rgb`, without its transparency.
bool read_pixels(const WebPData& file, WebPDecoderConfig& config, std::vector<uint8_t>& rgb) {
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {rgb.data(), config.input.width * 3, rgb.size()};
  return WebPDecode(file.bytes, file.size, &config) == VP8_STATUS_OK;
}

}  // namespace

StoredImage read_webp(std::string_view bytes) {
  const WebPData file = {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) fail("libwebp cannot start");
  const std::unique_ptr<WebPDemuxer, DemuxerDeleter> demuxer(WebPDemux(&file));
  if (!demuxer || WebPGetFeatures(file.bytes, file.size, &config.input) != VP8_STATUS_OK)
    fail("is broken or cut short");
  if (config.input.has_animation) fail("is animated; a still picture is expected");
  if ((config.input.format == kLossless || config.input.has_alpha) && bytes.size() > kMostLossless)
    fail("has " + std::to_string(bytes.size()) + " bytes without loss or with transparency, at most " +
         std::to_string(kMostLossless) + " are accepted");
  StoredImage out;
  out.image.size = {config.input.height, config.input.width};
  check_size(out.image.size);
  out.orientation = orientation_of(demuxer.get());
  out.image.rgb.resize(static_cast<size_t>(out.image.size.height * out.image.size.width * 3));
  if (!read_pixels(file, config, out.image.rgb)) fail("is broken or cut short");
  return out;
}

}  // namespace kvcal
