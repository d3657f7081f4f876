// What one instruction set offers. kernels.cpp defines it once for each, in a namespace of that
// name; module.cpp chooses among them when it is imported.
#pragma once

namespace scorewise {

struct Kernels {
    const char* name;
};

namespace baseline {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
namespace neon {
extern const Kernels kernels;
}

}  // namespace scorewise
