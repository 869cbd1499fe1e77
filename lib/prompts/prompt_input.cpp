#include "prompts/prompt_input.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include "base/finite_input.h"
#include "base/read_file.h"

namespace kvcal {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

// Text shrinks to a tenth. Records in memory take a multiple of their text, so that what a small file may unpack to
// decides how much memory it can take.
constexpr size_t kLargestRatio = 16, kAlwaysAccepted = size_t{64} << 20;

/// Hands on blocks of text, and no more than so many bytes.
class Bounded {
 public:
  Bounded(const std::string& name, size_t max_bytes, std::string beyond, const TakeBlock& take)
      : name_(name), max_bytes_(max_bytes), beyond_(std::move(beyond)), take_(take) {}

  void take(const char* data, size_t n) {
    if (n > max_bytes_ - n_bytes_)
      fail_named("more than " + std::to_string(max_bytes_) + " bytes of prompts; " + beyond_);
    n_bytes_ += n;
    take_({data, n});
  }

  [[noreturn]] void fail_named(const std::string& what) const { fail(name_ + ": " + what); }

 private:
  const std::string& name_;
  size_t max_bytes_, n_bytes_ = 0;
  std::string beyond_;
  const TakeBlock& take_;
};

std::string read_standard_input(size_t max_bytes) {
  std::string out;
  std::vector<char> chunk(kChunk);
  while (std::cin.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || std::cin.gcount() > 0) {
    if (static_cast<size_t>(std::cin.gcount()) > max_bytes - out.size())
      fail("standard input: more than " + std::to_string(max_bytes) + " bytes of prompts; is it a prompt file?");
    out.append(chunk.data(), static_cast<size_t>(std::cin.gcount()));
  }
  return out;
}

struct EndInflate {
  void operator()(z_stream* z) const {
    inflateEnd(z);
    delete z;
  }
};

void unpack_gzip(const std::string& packed, Bounded& out) {
  std::unique_ptr<z_stream, EndInflate> z(new z_stream{});
  if (inflateInit2(z.get(), 15 + 16) != Z_OK) out.fail_named("zlib cannot start");  // 16: gzip, not zlib
  std::vector<char> chunk(kChunk);
  size_t at = 0;
  int status = Z_OK;
  while (at < packed.size() || status != Z_STREAM_END) {
    if (status == Z_STREAM_END && inflateReset(z.get()) != Z_OK)
      out.fail_named("zlib cannot restart");  // joined members
    const size_t n = std::min(packed.size() - at, kChunk);
    z->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + at));
    z->avail_in = static_cast<uInt>(n);
    z->next_out = reinterpret_cast<Bytef*>(chunk.data());
    z->avail_out = static_cast<uInt>(chunk.size());
    status = inflate(z.get(), Z_NO_FLUSH);
    at += n - z->avail_in;
    const size_t made = chunk.size() - z->avail_out;
    if (status != Z_OK && status != Z_STREAM_END) out.fail_named("not valid gzip, or truncated");
    if (made == 0 && z->avail_in == n && status != Z_STREAM_END) out.fail_named("gzip data is truncated");
    out.take(chunk.data(), made);
  }
}

void unpack_zstd(const std::string& packed, Bounded& out) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  std::vector<char> chunk(kChunk);
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  size_t pending = 1;
  while (in.pos < in.size || pending != 0) {
    ZSTD_outBuffer to{chunk.data(), chunk.size(), 0};
    const size_t before = in.pos;
    pending = ZSTD_decompressStream(context.get(), &to, &in);
    if (ZSTD_isError(pending)) out.fail_named(std::string("not valid zstd: ") + ZSTD_getErrorName(pending));
    if (to.pos == 0 && in.pos == before && pending != 0) out.fail_named("zstd data is truncated");
    out.take(chunk.data(), to.pos);
  }
}

}  // namespace

void read_prompt_file(const std::filesystem::path& path, size_t max_bytes, const TakeBlock& take) {
  if (path == "-") return take(read_standard_input(std::min(max_bytes, kMostPiped)));
  const std::string bytes = read_file(path, max_bytes);
  const bool gzip = path.extension() == ".gz" || bytes.starts_with("\x1F\x8B");
  const bool zstd = path.extension() == ".zst" || bytes.starts_with("\x28\xB5\x2F\xFD");
  if (!gzip && !zstd) return take(bytes);
  const std::string name = path.string();
  const size_t limit = std::min(max_bytes, std::max(kAlwaysAccepted, bytes.size() * kLargestRatio));
  Bounded out(
      name, limit,
      "that is far more than its size of " + std::to_string(bytes.size()) + " lets expect: unpack it, if it is meant",
      take);
  gzip ? unpack_gzip(bytes, out) : unpack_zstd(bytes, out);
}

}  // namespace kvcal
