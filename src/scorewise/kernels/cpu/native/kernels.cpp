// The kernels of one instruction set: compiled once for each, with SCOREWISE_ISA as its name.
#include "dispatch.hpp"

#define SCOREWISE_NAME_OF(isa) #isa
#define SCOREWISE_NAME(isa) SCOREWISE_NAME_OF(isa)

namespace scorewise::SCOREWISE_ISA {

const Kernels kernels = {SCOREWISE_NAME(SCOREWISE_ISA)};

}  // namespace scorewise::SCOREWISE_ISA
