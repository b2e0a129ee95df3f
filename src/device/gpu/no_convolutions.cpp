// HIP has no library for Convolutions here: MIOpen is not built in.

#include "device/device.hpp"
#include "device/injection.hpp"

namespace isthmus::device {
namespace {

[[noreturn]] void refuse(const char* call) {
  throw Error(ErrorKind::unsupported, call, "MIOpen's convolutions are not built in", "convolve by kernels of ours");
}

}  // namespace

struct Convolutions::Library {};

Convolutions::Convolutions(Math, Algorithms) : library_(nullptr) {
  injection_point("convolutions_create");
  refuse("convolutions_create");
}

Convolutions::~Convolutions() {
  delete library_;
}

std::string Convolutions::version() const {
  refuse("convolutions_create");
}

std::size_t Convolutions::plan(const ConvolutionShape&) {
  refuse("convolutions_plan");
}

const Convolutions::Chosen& Convolutions::chosen(std::size_t) const {
  refuse("convolutions_plan");
}

void Convolutions::run(Stream&, std::size_t, const float*, const float*, float*, void*) {
  refuse("convolutions_run");
}

}  // namespace isthmus::device
