// Fake libMIOpen.so.1: convolves host memory and finds the solutions that the test sets. If ISTHMUS_OLD_MIOPEN is
// defined, it lacks one function, like versions before ROCm 5.7.

#include <algorithm>
#include <cstdlib>

#include "fake_convolutions.hpp"

namespace device = isthmus::device;
using device::at;
using device::MiopenSolution;

namespace {

device::FakeMiopen settings;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Problem in MIOpen's sense. MIOpen numbers a problem's tensors from 1.
struct Problem : device::FakeObject {
  void* convolution = nullptr;
  void* tensors[4] = {};
};
struct Solution : device::FakeObject {
  MiopenSolution told{};
};

constexpr int bad_parameter = 3;

int of_solution(const char* function, void* solution, const auto& read) {
  if (const int status = settings.status_of(function)) return status;
  read(device::object_at<Solution>(solution).told);
  return 0;
}

}  // namespace

extern "C" {

device::FakeMiopen* fake_convolutions() {
  return &settings;
}

int miopenGetVersion(std::size_t* major, std::size_t* minor, std::size_t* patch) {
  *major = settings.version[0];
  *minor = settings.version[1];
  *patch = settings.version[2];
  return settings.status_of("miopenGetVersion");
}
const char* miopenGetErrorString(int) {
  return "STATUS_OF_A_FAKE";
}

int miopenCreate(void** handle) {
  settings.find_mode = variable("MIOPEN_FIND_MODE");
  settings.no_find_db = variable("MIOPEN_DEBUG_DISABLE_FIND_DB");
  settings.tf32 = variable("MIOPEN_TF32_OVERRIDE");
  return make(settings, handle, "miopenCreate");
}
int miopenDestroy(void* handle) {
  return destroy(settings, handle, "miopenCreate");
}
int miopenSetStream(void*, void* stream) {
  settings.stream = stream;
  return settings.status_of("miopenSetStream");
}
int miopenCreateTensorDescriptor(void** descriptor) {
  return make(settings, descriptor, "miopenCreateTensorDescriptor");
}
int miopenDestroyTensorDescriptor(void* descriptor) {
  return destroy(settings, descriptor, "miopenCreateTensorDescriptor");
}
int miopenCreateConvolutionDescriptor(void** descriptor) {
  return make(settings, descriptor, "miopenCreateConvolutionDescriptor");
}
int miopenDestroyConvolutionDescriptor(void* descriptor) {
  return destroy(settings, descriptor, "miopenCreateConvolutionDescriptor");
}

int miopenSet4dTensorDescriptor(void* descriptor, int type, int n, int c, int h, int w) {
  at(descriptor) = {n, c, h, w, c * h * w, h * w, w, 1, 0, 0, 0, 0, 0};
  return type != 1 ? bad_parameter : settings.status_of("miopenSet4dTensorDescriptor");
}
int miopenInitConvolutionDescriptor(void* descriptor, int mode, int padding_h, int padding_w, int stride_h,
                                    int stride_w, int dilation_h, int dilation_w) {
  at(descriptor) = {0, 0, 0, 0, 0, 0, 0, 0, padding_h, padding_w, stride_h, stride_w, 0};
  const bool plain = dilation_h == 1 && dilation_w == 1 && mode == 0;
  return plain ? settings.status_of("miopenInitConvolutionDescriptor") : bad_parameter;
}
int miopenSetConvolutionAttribute(void* descriptor, int attribute, int value) {
  if (attribute != 1) return bad_parameter;
  at(descriptor).kind = value;
  return settings.status_of("miopenSetConvolutionAttribute");
}

int miopenCreateConvProblem(void** problem, void* convolution, int direction) {
  if (direction != 0) return bad_parameter;
  Problem made;
  made.convolution = convolution;
  return make(settings, problem, "miopenCreateConvProblem", std::move(made));
}
int miopenDestroyProblem(void* problem) {
  return destroy(settings, problem, "miopenCreateConvProblem");
}
int miopenSetProblemTensorDescriptor(void* problem, int argument, void* descriptor) {
  if (argument < 1 || argument > 3) return bad_parameter;
  device::object_at<Problem>(problem).tensors[argument] = descriptor;
  return settings.status_of("miopenSetProblemTensorDescriptor");
}
int miopenCreateFindOptions(void** options) {
  return make(settings, options, "miopenCreateFindOptions");
}
int miopenDestroyFindOptions(void* options) {
  return destroy(settings, options, "miopenCreateFindOptions");
}
int miopenSetFindOptionWorkspaceLimit(void*, std::size_t bytes) {
  settings.workspace_limit = bytes;
  return settings.status_of("miopenSetFindOptionWorkspaceLimit");
}

int miopenFindSolutions(void*, void* problem, void*, void** solutions, std::size_t* returned, std::size_t asked) {
  const auto& tensors = device::object_at<Problem>(problem).tensors;
  // A filter has as many channels as the input, and the output has as many as there are filters.
  if (at(tensors[2]).c != at(tensors[1]).c || at(tensors[3]).c != at(tensors[2]).n) return bad_parameter;
  ++settings.searches;
  settings.stream_of_search = settings.stream;
  settings.deterministic = at(device::object_at<Problem>(problem).convolution).kind == 1;
  for (*returned = 0; *returned < std::min(asked, settings.solutions.size()); ++*returned) {
    Solution made;
    made.told = settings.solutions[*returned];
    if (const int status = make(settings, &solutions[*returned], "miopenFindSolutions", std::move(made))) return status;
  }
  return 0;
}
int miopenDestroySolution(void* solution) {
  return destroy(settings, solution, "miopenFindSolutions");
}
int miopenGetSolutionTime(void* solution, float* milliseconds) {
  return of_solution("miopenGetSolutionTime", solution, [&](const auto& s) { *milliseconds = s.milliseconds; });
}
int miopenGetSolutionWorkspaceSize(void* solution, std::size_t* bytes) {
  return of_solution("miopenGetSolutionWorkspaceSize", solution, [&](const auto& s) { *bytes = s.workspace_bytes; });
}
int miopenGetSolutionSolverId(void* solution, std::uint64_t* solver) {
  return of_solution("miopenGetSolutionSolverId", solution, [&](const auto& s) { *solver = s.solver; });
}
#ifndef ISTHMUS_OLD_MIOPEN
int miopenGetSolverIdConvAlgorithm(std::uint64_t solver, int* algorithm) {
  const auto of_solver = [solver](const MiopenSolution& s) { return s.solver == solver; };
  const auto found = std::find_if(settings.solutions.begin(), settings.solutions.end(), of_solver);
  if (found == settings.solutions.end()) return bad_parameter;
  *algorithm = found->algorithm;
  return settings.status_of("miopenGetSolverIdConvAlgorithm");
}
#endif

int miopenConvolutionForwardCompileSolution(void*, void* filter, void* in, void*, void* out, std::uint64_t) {
  if (at(filter).c != at(in).c || at(out).c != at(filter).n) return bad_parameter;
  ++settings.compiled;
  return settings.status_of("miopenConvolutionForwardCompileSolution");
}
int miopenConvolutionForwardImmediate(void*, void* filter, const void* w, void* in, const void* x, void* convolution,
                                      void* out, void* y, void* workspace, std::size_t workspace_bytes,
                                      std::uint64_t solver) {
  settings.solver_of_run = solver;
  settings.workspace_of_run = workspace_bytes;
  settings.null_workspace = workspace == nullptr;
  if (const int status = settings.status_of("miopenConvolutionForwardImmediate")) return status;
  device::convolve(at(in), static_cast<const float*>(x), at(filter), static_cast<const float*>(w), at(convolution),
                   at(out), static_cast<float*>(y));
  return 0;
}

}  // extern "C"
