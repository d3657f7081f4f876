// The code for one instruction set; compiled once for each, with SCOREWISE_ISA as its name.
#include "accumulate.hpp"
#include "checks.hpp"
#include "decompose.hpp"
#include "means.hpp"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

namespace scorewise {
namespace SCOREWISE_ISA {

const Kernels kernels = {TEXT(SCOREWISE_ISA), decompose<float>, decompose<double>,
                         average<float>, average<double>,
                         check<float>, check<double>,
                         accumulate<float>, accumulate<double>, update_results<float>, update_results<double>};

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
