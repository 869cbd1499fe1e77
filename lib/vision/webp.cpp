#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "vision/image_formats.h"

namespace kvcal {
namespace {

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
  if (config.input.has_animation) fail("moves; a picture that stands still is expected");
  StoredImage out;
  out.image.size = {config.input.height, config.input.width};
  check_size(out.image.size);
  out.orientation = orientation_of(demuxer.get());
  out.image.rgb.resize(static_cast<size_t>(out.image.size.height * out.image.size.width * 3));
  if (!read_pixels(file, config, out.image.rgb)) fail("is broken or cut short");
  return out;
}

}  // namespace kvcal
