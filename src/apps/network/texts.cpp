// The built-in networks, as texts in the format of a file.

#include <fmt/format.h>

#include <stdexcept>

#include "apps/network/description.hpp"

namespace isthmus::apps {

namespace {

/// Writer of a network's sections.
class Text {
 public:
  Text(unsigned width, unsigned height) {
    section("net", fmt::format("width={}\nheight={}\nchannels=3\n", width, height));
  }

  std::string text() && { return std::move(text_); }

  void section(std::string_view kind, std::string_view options = {}) {
    text_ += fmt::format("{}[{}]\n{}", text_.empty() ? "" : "\n", kind, options);
  }
  void convolution(unsigned filters, unsigned size, unsigned stride = 1, std::string_view activation = "leaky",
                   bool normalize = true) {
    section("convolutional", fmt::format("{}filters={}\nsize={}\nstride={}\npad=1\nactivation={}\n",
                                         normalize ? "batch_normalize=1\n" : "", filters, size, stride, activation));
  }
  void maxpool(unsigned size, unsigned stride) {
    section("maxpool", fmt::format("size={}\nstride={}\n", size, stride));
  }
  void shortcut(int from, std::string_view activation) {
    section("shortcut", fmt::format("from={}\nactivation={}\n", from, activation));
  }
  void route(std::string_view layers) { section("route", fmt::format("layers={}\n", layers)); }
  void upsample() { section("upsample", "stride=2\n"); }
  void yolo(std::string_view mask, unsigned classes) {
    section("yolo", fmt::format("mask={}\nclasses={}\n", mask, classes));
  }

 private:
  std::string text_;
};

/// Returns the text of a small network with every kind of layer and every activation.
std::string sample() {
  Text t(24, 16);
  t.convolution(8, 3);
  t.maxpool(2, 2);
  t.convolution(12, 1, 1, "relu");
  t.convolution(8, 3, 1, "linear");
  t.shortcut(-3, "relu");
  t.convolution(20, 3, 2);
  t.shortcut(0, "leaky");  // the second input has fewer channels, and planes four times as wide and high
  t.maxpool(2, 1);
  t.convolution(18, 1, 1, "linear", false);
  t.yolo("0,1", 4);
  t.route("-3");
  t.upsample();
  t.route("-1,3");  // layer 3 is a convolution that a shortcut also uses
  t.convolution(7, 5, 2, "logistic");
  t.section("avgpool");
  t.route("-2");
  t.section("connected", "batch_normalize=1\noutput=12\nactivation=leaky\n");
  t.route("-1,-3");
  t.section("connected", "output=10\nactivation=linear\n");
  t.section("softmax", "groups=1\n");
  return std::move(t).text();
}

std::string resnet(bool bottlenecks) {
  Text t(224, 224);
  t.convolution(64, 7, 2);
  t.maxpool(2, 2);
  const unsigned deep[] = {3, 4, 6, 3};  // blocks per stage with bottlenecks
  for (unsigned s = 0; s < 4; ++s) {
    const unsigned width = 64u << s, stride = s == 0 ? 1 : 2;
    for (unsigned block = 0; block < (bottlenecks ? deep[s] : 2); ++block) {
      const unsigned step = block == 0 ? stride : 1;
      if (bottlenecks) {
        t.convolution(width, 1);
        t.convolution(width, 3, step);
        t.convolution(4 * width, 1, 1, "linear");
      } else {
        t.convolution(width, 3, step);
        t.convolution(width, 3, 1, "linear");
      }
      t.shortcut(bottlenecks ? -4 : -3, "leaky");
    }
  }
  t.section("avgpool");
  t.convolution(1000, 1, 1, "linear", false);
  t.section("softmax", "groups=1\n");
  return std::move(t).text();
}

/// Adds a yolo layer with boxes of three shapes and the usual 80 classes, and the convolution before it.
void boxes(Text& t, std::string_view mask) {
  t.convolution(3 * (5 + 80), 1, 1, "linear", false);
  t.yolo(mask, 80);
}

std::string yolov3_tiny() {
  Text t(416, 416);
  for (const unsigned filters : {16, 32, 64, 128, 256}) {
    t.convolution(filters, 3);
    t.maxpool(2, 2);
  }
  t.convolution(512, 3);
  t.maxpool(2, 1);
  t.convolution(1024, 3);
  t.convolution(256, 1);
  t.convolution(512, 3);
  boxes(t, "3,4,5");
  t.route("-4");
  t.convolution(128, 1);
  t.upsample();
  t.route("-1,8");
  t.convolution(256, 3);
  boxes(t, "0,1,2");
  return std::move(t).text();
}

std::string yolov3() {
  Text t(416, 416);
  t.convolution(32, 3);
  const unsigned deep[] = {1, 2, 8, 8, 4};
  for (unsigned s = 0; s < 5; ++s) {
    const unsigned width = 32u << s;
    t.convolution(2 * width, 3, 2);
    for (unsigned block = 0; block < deep[s]; ++block) {
      t.convolution(width, 1);
      t.convolution(2 * width, 3);
      t.shortcut(-3, "linear");
    }
  }
  const auto head = [&](unsigned width, std::string_view mask) {
    for (int i = 0; i < 3; ++i) {
      t.convolution(width, 1);
      t.convolution(2 * width, 3);
    }
    boxes(t, mask);
  };
  const auto next = [&](unsigned width, std::string_view layers) {
    t.route("-4");
    t.convolution(width, 1);
    t.upsample();
    t.route(layers);
  };
  head(512, "6,7,8");
  next(256, "-1,61");
  head(256, "3,4,5");
  next(128, "-1,36");
  head(128, "0,1,2");
  return std::move(t).text();
}

}  // namespace

std::string network_text(std::string_view name) {
  if (name == "sample") return sample();
  if (name == "resnet18") return resnet(false);
  if (name == "resnet50") return resnet(true);
  if (name == "yolov3-tiny") return yolov3_tiny();
  if (name == "yolov3") return yolov3();
  throw std::invalid_argument(fmt::format("there is no network named {}", name));
}

}  // namespace isthmus::apps
