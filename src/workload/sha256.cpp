#include "workload/sha256.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <iterator>
#include <stdexcept>

namespace isthmus::workload {

namespace {

EVP_MD_CTX* of(void* context) {
  return static_cast<EVP_MD_CTX*>(context);
}

void require(bool done) {
  if (!done) throw std::runtime_error("a hash could not be computed: this system's OpenSSL refuses SHA-256");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require(context_ != nullptr && EVP_DigestInit_ex(of(context_.get()), EVP_sha256(), nullptr) == 1);
}

void Sha256::Free::operator()(void* context) const noexcept {
  EVP_MD_CTX_free(of(context));
}

void Sha256::add(const void* data, std::size_t bytes) {
  require(EVP_DigestUpdate(of(context_.get()), data, bytes) == 1);
}

std::string Sha256::digits() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  require(EVP_DigestFinal_ex(of(context_.get()), digest.data(), &size) == 1);
  std::string text;
  for (unsigned i = 0; i < size; ++i) fmt::format_to(std::back_inserter(text), "{:02x}", digest[i]);
  return text;
}

}  // namespace isthmus::workload
