#include <gtest/gtest.h>

#include <vector>

#include "base/sha256.h"

namespace kvcal {
namespace {

struct Vector {
  std::string text;
  const char* digest;
};

// FIPS 180-4 examples and the NIST CAVP byte-oriented short messages; lengths around the padding's edges (55, 56, 63,
// 64, 65, 119, 120 letters a) were computed with coreutils sha256sum.
const std::vector<Vector>& vectors() {
  static const std::vector<Vector> all = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrst"
       "u",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {"\xd3", "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1"},
      {"\x11\xaf", "5ca7133fa735326081558ac312c620eeca9970d1e70a4b95533d956f072d1f98"},
      {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
      {std::string(55, 'a'), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
      {std::string(56, 'a'), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
      {std::string(63, 'a'), "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
      {std::string(64, 'a'), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
      {std::string(65, 'a'), "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
      {std::string(119, 'a'), "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
      {std::string(120, 'a'), "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
  };
  return all;
}

TEST(Sha256, PublishedVectors) {
  for (const Vector& v : vectors()) EXPECT_EQ(sha256_hex(v.text), v.digest) << v.text.size() << " bytes";
}

TEST(Sha256, PiecesOfAnySizeGiveTheSame) {
  for (const Vector& v : vectors()) {
    if (v.text.size() > 1000) continue;
    for (size_t piece = 1; piece <= v.text.size(); ++piece) {
      Sha256 hash;
      for (size_t i = 0; i < v.text.size(); i += piece) hash.update(std::string_view(v.text).substr(i, piece));
      EXPECT_EQ(hash.hex(), v.digest) << "pieces of " << piece;
    }
  }
}

TEST(Sha256, HexDoesNotEndTheStream) {
  Sha256 hash;
  hash.update("a");
  static_cast<void>(hash.hex());
  hash.update("bc");
  EXPECT_EQ(hash.hex(), sha256_hex("abc"));
}

}  // namespace
}  // namespace kvcal
