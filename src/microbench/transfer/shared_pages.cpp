#include "microbench/transfer/shared_pages.hpp"

#include "memory/pages.hpp"
#include "microbench/require.hpp"
#include "microbench/transfer/kernels.hpp"

namespace isthmus::microbench::transfer {

using workload::Skip;
using workload::SkipKind;

SharedPages::SharedPages(const End& from, const End& to, std::size_t bytes, memory::BlockOptions options)
    : bytes_(bytes), options_(options), info_(device::info(device::selected())) {
  const std::size_t page = memory::page_bytes();
  if (bytes % page != 0)
    throw Skip(std::to_string(bytes) + " bytes are not a multiple of the page size, " + std::to_string(page) + " bytes",
               SkipKind::not_applicable);
  if (from.kind == Kind::pageable || to.kind == Kind::pageable) {
    require_kind(Kind::pageable, Reader::gpu, info_);
    block_ = memory::Block(Kind::pageable, bytes, options);
    block_.touch();
    sum_.emplace(gpu(info_.index), sizeof(std::uint64_t), memory::BlockOptions{});
    return;
  }
  require_kind(Kind::managed, Reader::gpu, info_);
  if (!info_.concurrent_managed)
    throw Skip(info_.name + " (" + info_.arch +
               ") cannot use managed memory at the same time as the CPU, so its pages do not move one by one");
  block_ = memory::Block(Kind::managed, bytes);
}

device::Location SharedPages::place(const End& end) const {
  return end.on_gpu() ? device::Location::gpu(end.index) : device::Location::host(options_.numa_node);
}

void SharedPages::send_to(const End& end, device::Stream& stream) {
  if (managed()) {
    device::prefetch(data(), bytes_, place(end), stream);
  } else if (end.on_gpu()) {
    queue_touch(stream, data(), bytes_, memory::page_bytes(), Touch::page,
                reinterpret_cast<std::uint64_t*>(sum_->data()), {}, info_);
  }
  stream.synchronize();
  if (!end.on_gpu()) memory::rewrite_pages(data(), bytes_);  // puts the pages into the host's page table as well
}

std::optional<double> SharedPages::share_off_host() const {
  if (!managed() || info_.integrated || device::backend() == device::Backend::emulator) return std::nullopt;
  const auto pages = memory::present_pages(data(), bytes_);
  if (!pages) return std::nullopt;
  return 1 - static_cast<double>(pages->present) / static_cast<double>(pages->all);
}

}  // namespace isthmus::microbench::transfer
