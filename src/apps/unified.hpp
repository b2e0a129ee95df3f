#pragma once

// Helpers of the MI300A paper's six programs, which determine where the input is when a program begins.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "workload/text_numbers.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {

/// Returns the preset of Figure 11 at size `large`, whose total time includes reading the input. `settings` has the
/// axis values that the original program fixed. Placements are chosen separately: pageable for explicit copies,
/// managed_demand for unified memory.
inline workload::Preset unified_preset(workload::AxisSettings settings = {}) {
  settings.emplace_back("data", "written");
  return {.name = "paper-mi300a",
          .help = "mi300a-upm-2025, Figure 11, in the original's form: with --placement pageable,managed_demand",
          .settings = std::move(settings),
          .sizes = {"large"}};
}

/// Adds the axis `data` for the source of the input: generated in memory, or in a file that is read in a separate
/// phase. `variable`, if not empty, is the environment variable that names a file of the user; `kind` describes its
/// format.
inline workload::Workload& with_data(workload::Workload& program, const std::string& variable = {},
                                     const std::string& kind = {}) {
  std::string help = "source of the input: generated in memory, or written to a scratch file first and read from it";
  std::vector<workload::AxisValue> values = {"generated", "written"};
  if (!variable.empty()) {
    help += ", or in the file named by " + variable;
    values.emplace_back("file");
  }
  program.axis(workload::choice_axis("data", help, std::move(values))).file_phase("data");
  if (!variable.empty()) program.with_file("data", variable, kind, std::size_t{1} << 40);
  return program;
}

/// Contents of the user's file if the case reads such a file; otherwise empty.
template <class T>
class UserFile {
 public:
  using All = workload::Shared<std::vector<T>>;
  using Next = std::function<void(std::span<T>)>;  ///< fills the span with the next elements
  using Open = std::function<Next(const workload::InputFile&)>;

  UserFile() = default;
  /// Prepares to read `elements` elements in total; `open` returns a function that reads from the beginning of the
  /// file.
  UserFile(workload::Case& c, std::size_t elements, const Open& open) {
    if (c.choice("data") != "file") return;
    open_ = [file = c.input_file(), open] { return open(file); };
    all_ = std::make_shared<const All>(
        c.shared<std::vector<T>>("the user's file", elements * sizeof(T), [elements, begin = open_] {
          std::vector<T> values(elements);
          begin()(values);
          return values;
        }));
  }

  /// Returns the elements, or null without a file. The type is not std::optional, because GCC 12 wrongly warns that a
  /// copied empty one is read.
  const std::shared_ptr<const All>& all() const { return all_; }
  /// Fills these buffers, one after the other, with the elements of the file in the file phase.
  template <class... Buffers>
  void fills(workload::Case& c, const Buffers&... buffers) const {
    if (all_) c.reads_file(std::vector<workload::Buffer<T>>{buffers...}, open_);
  }

 private:
  std::function<Next()> open_;
  std::shared_ptr<const All> all_;
};

/// Values of an input: generated(i) for element i, or element `first` + i of the user's file.
template <class T, class Generated>
class Values {
 public:
  Values(Generated generated) : generated_(std::move(generated)) {}
  T operator()(std::size_t i) const { return file_ ? (**file_)[first_ + i] : generated_(i); }
  /// Uses the elements of the file from `first` on, if there is a file.
  void take(const UserFile<T>& file, std::size_t first = 0) {
    file_ = file.all();
    first_ = first;
  }

 private:
  Generated generated_;
  std::shared_ptr<const typename UserFile<T>::All> file_;
  std::size_t first_ = 0;
};

/// Returns a reader of `elements` numbers in a text, which throws if more text follows them.
inline std::function<void(std::span<float>)> numbers_of(workload::TextNumbers text, std::size_t elements, float least,
                                                        float largest) {
  return [text = std::move(text), left = elements, least, largest](std::span<float> row) mutable {
    for (float& value : row) value = text.number(least, largest);
    if ((left -= row.size()) == 0) text.end();
  };
}

}  // namespace isthmus::apps
