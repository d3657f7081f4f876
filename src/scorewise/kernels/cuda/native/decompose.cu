// Total, aleatoric and epistemic uncertainty of members (N, M, K), read once from memory.
//
// Blocks of threads copy the members of some instances, a tile, to shared memory and work on them there. First
// come the check, the softmax of logits, entropies and the mean; then EU as a difference, where this keeps
// enough digits; for the other instances the tile is read again, for divergences from the mean. Or the gradient of
// the first four rules takes the place of all that.
//
// Python compiles this file for a number of classes, an element type and a rule, or some of the first four;
// kernels/cuda/README.md lists what it defines before.

#include "prelude.cuh"
#include "job.cuh"

#if GRADIENT

#if CLASS_LANES
#include "warp_gradient.cuh"
#else
#include "block_gradient.cuh"
#endif

#else

#include "first_four.cuh"
#include "quadratic.cuh"
#include "structures.cuh"
#include "two_class.cuh"
using Rule = RULE;
#if CLASS_LANES
#include "warp_components.cuh"
#else
#include "block_components.cuh"
#endif

#endif

extern "C" __global__ void __launch_bounds__(MOST_THREADS, LEAST_BLOCKS) decompose(const Job job) {
    SHARED_MEMORY(memory);
    WORK work(job);
    work.run(memory);
}
