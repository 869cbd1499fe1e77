#include "prompts/prompt_input.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include "base/read_file.h"

namespace kvcal {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

// Text shrinks to a tenth, seldom to a hundredth. What unpacks to more was made to fill memory.
constexpr size_t kLargestRatio = 100, kAlwaysAccepted = size_t{64} << 20;

void append_bounded(std::string& out, const char* data, size_t n, size_t max_bytes) {
  if (n > max_bytes - out.size())
    fail("more than " + std::to_string(max_bytes) + " bytes of prompts; is it a prompt file?");
  out.append(data, n);
}

std::string read_standard_input(size_t max_bytes) {
  std::string out;
  std::vector<char> chunk(kChunk);
  while (std::cin.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || std::cin.gcount() > 0)
    append_bounded(out, chunk.data(), static_cast<size_t>(std::cin.gcount()), max_bytes);
  return out;
}

struct EndInflate {
  void operator()(z_stream* z) const {
    inflateEnd(z);
    delete z;
  }
};

size_t unpacked_limit(const std::string& packed, size_t max_bytes) {
  return std::min(max_bytes, std::max(kAlwaysAccepted, packed.size() * kLargestRatio));
}

std::string unpack_gzip(const std::string& packed, size_t max_bytes) {
  std::unique_ptr<z_stream, EndInflate> z(new z_stream{});
  if (inflateInit2(z.get(), 15 + 16) != Z_OK) fail("zlib cannot start");  // 16: gzip, not zlib
  std::string out;
  std::vector<char> chunk(kChunk);
  size_t at = 0;
  int status = Z_OK;
  while (at < packed.size() || status != Z_STREAM_END) {
    if (status == Z_STREAM_END && inflateReset(z.get()) != Z_OK) fail("zlib cannot restart");  // joined members
    const size_t n = std::min(packed.size() - at, kChunk);
    z->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + at));
    z->avail_in = static_cast<uInt>(n);
    z->next_out = reinterpret_cast<Bytef*>(chunk.data());
    z->avail_out = static_cast<uInt>(chunk.size());
    status = inflate(z.get(), Z_NO_FLUSH);
    at += n - z->avail_in;
    const size_t made = chunk.size() - z->avail_out;
    if (status != Z_OK && status != Z_STREAM_END) fail("not valid gzip, or truncated");
    if (made == 0 && z->avail_in == n && status != Z_STREAM_END) fail("gzip data is truncated");
    append_bounded(out, chunk.data(), made, max_bytes);
  }
  return out;
}

std::string unpack_zstd(const std::string& packed, size_t max_bytes) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  std::string out;
  std::vector<char> chunk(kChunk);
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  size_t pending = 1;
  while (in.pos < in.size || pending != 0) {
    ZSTD_outBuffer to{chunk.data(), chunk.size(), 0};
    const size_t before = in.pos;
    pending = ZSTD_decompressStream(context.get(), &to, &in);
    if (ZSTD_isError(pending)) fail(std::string("not valid zstd: ") + ZSTD_getErrorName(pending));
    if (to.pos == 0 && in.pos == before && pending != 0) fail("zstd data is truncated");
    append_bounded(out, chunk.data(), to.pos, max_bytes);
  }
  return out;
}

}  // namespace

std::string read_prompt_file(const std::filesystem::path& path, size_t max_bytes) {
  if (path == "-") return while_doing("standard input", [&] { return read_standard_input(max_bytes); });
  std::string bytes = read_file(path, max_bytes);
  const std::string extension = path.extension().string();
  return while_doing(path.string(), [&] {
    if (extension == ".gz") return unpack_gzip(bytes, unpacked_limit(bytes, max_bytes));
    if (extension == ".zst") return unpack_zstd(bytes, unpacked_limit(bytes, max_bytes));
    return std::move(bytes);
  });
}

}  // namespace kvcal
