// What the Python module and the code for each instruction set agree on.
#pragma once

#include <cstddef>

namespace scorewise {

// What the numbers of members are.
enum Kind { PROBABILITIES, LOGITS, MASSES };

// The structures of rules (see kernels/cpu/README.md). The first four are special cases that share
// their sums over classes.
enum class Structure {
    LOG,         // −Σ p·log p
    BRIER,       // 1 − Σp²
    ZERO_ONE,    // 1 − max p
    SPHERICAL,   // 1 − ‖p‖₂
    SEPARABLE,   // Σ w·p·(1 − p^rate)/rate, or −Σ w·p·log p at rate = 0
    NORM,        // 1 − ‖p‖_α
    COSTS,       // min_a Σ p·c_a
    LARGEST,     // 1 − the sum of the k largest
    QUADRATIC,   // ½ Σ p_i·p_j·d_ij
    CUMULATIVE,  // Σ F·(1 − F)
    TWO_CLASS,   // H'' = −c^(a − 1)·(1 − c)^(b − 1), for two classes
};

// What is computed besides total, aleatoric and epistemic uncertainty.
enum Extra {
    UNBIASED = 1,  // EU and TU without the bias of few members
    ERRORS = 2,    // the standard errors of the three, after them
    REVERSE = 4,   // E D(θ, θ̄), after the three
    ACTIONS = 8,   // the cheapest action under costs, or −1 where rounding errors decide; after the three
};

constexpr ptrdiff_t TWO_CLASS_HEADER = 19;  // numbers of a rule of two classes before its nodes and polynomials

struct Rule {
    Structure structure;
    double parameter;       // rate, α or k
    const double *numbers;  // weights (K), costs (K, A), distances (K, K) and root (K, R), or of two classes
    ptrdiff_t size;         // of numbers
};

// Members (N, M, K) to be decomposed, from instance `start` to `stop`.
struct Job {
    const char *members;
    ptrdiff_t n_instances, n_members, n_classes;
    ptrdiff_t instance_stride, member_stride, class_stride;  // in bytes
    const char *weights;  // that sum to 1; null if all are equal
    ptrdiff_t weight_instance_stride, weight_member_stride;  // in bytes; 0 where weights are shared
    int kind;
    double tolerance;  // how far sums may be from 1; negative to check nothing
    int extras;             // of Extra, added up
    const char *predictor;  // predictions (N, K) in place of the mean; null for the mean
    ptrdiff_t predictor_instance_stride, predictor_class_stride;  // in bytes
    const Rule *rules;
    int n_rules;
    char *results;  // the components (total, aleatoric, epistemic, …) of each rule and instance
    ptrdiff_t part_stride, result_stride;  // in bytes, from a component or instance to the next
    ptrdiff_t start, stop;
};

// Members without rules, whose mean is wanted, or the variance decomposition of each class.
struct AverageJob {
    Job members;
    char *mean;                  // (N, K) in double precision; null if it is not wanted
    ptrdiff_t mean_strides[2];   // in bytes
    char *parts;                 // TU, AU and EU (3, N, K), or null
    ptrdiff_t part_strides[3];
};

// The functions here are static: the linker would keep one copy of others, which might need instructions
// that a processor lacks.

// The number of components of a rule.
static inline int n_parts(const Job &job) { return job.extras & ERRORS ? 6 : job.extras & (REVERSE | ACTIONS) ? 4 : 3; }

// What an accumulator knows of some members.
//
// Instances are in blocks of LANE_BLOCK. Side by side, class k of instance i is at
// (i / LANE_BLOCK · K + k) · LANE_BLOCK + i % LANE_BLOCK, so that vectors hold a class of as many
// instances as they have lanes. Across, an instance's classes lie one after the other, and are
// filled up with 0 to a multiple of LANE_BLOCK. Statistics are in blocks always: (blocks, 2, rules,
// LANE_BLOCK), so that few places of memory are read and written by turns.
struct Memory {
    char *anchor, *deviation;     // (room, classes): the mean is their sum
    char *regrets;                // (room, n_regrets) of the rules that have regrets, as classes are
    char *aleatoric, *epistemic;  // of each rule E H(θ), and EU or a lower bound of it
    double *convex;               // the mean convex part of H, of which EU is a difference; see has_convex
    unsigned char *has_zero_anchor;  // of each instance, 1 where the anchor is known to be 0
};

struct State {
    Memory memory;
    ptrdiff_t room;      // for instances, a multiple of LANE_BLOCK
    ptrdiff_t n_regrets;
    ptrdiff_t offset;    // the instance of the state that is the first of the job
    const char *shares;  // three of each instance and member: of the member, of those before it, and
                         // whether it is heavier than each of them
    ptrdiff_t share_part_stride, share_stride, share_member_stride;
    bool is_side_by_side;
    int wanted;  // of Wanted
};

// What `update_results` finds besides the totals.
enum Wanted {
    EPISTEMIC,  // EU
    REGRETS,    // EU, and the regrets of zero-one
    CONVEX,     // the mean convex parts of H, from EU and regrets
};

constexpr ptrdiff_t LANE_BLOCK = 16;  // the most lanes of a vector

// The numbers of a row of classes in a state.
static inline ptrdiff_t row_length(ptrdiff_t n_classes, bool is_side_by_side) {
    return is_side_by_side ? n_classes : (n_classes + LANE_BLOCK - 1) / LANE_BLOCK * LANE_BLOCK;
}
// The regrets of an instance under a rule.
static inline ptrdiff_t regrets_of(const Rule &rule, ptrdiff_t row) {
    switch (rule.structure) {
        case Structure::ZERO_ONE: return row;
        case Structure::COSTS: return ptrdiff_t(rule.parameter);
        case Structure::LARGEST: return 2 * row;
        default: return 0;
    }
}

// Whether EU under a rule may be a difference, for which the mean convex part of H is kept.
static inline bool has_convex(const Rule &rule) {
    switch (rule.structure) {
        case Structure::LOG:
        case Structure::ZERO_ONE:
        case Structure::SEPARABLE:
        case Structure::NORM:
        case Structure::TWO_CLASS: return true;
        default: return false;
    }
}

enum Status { INVALID = 0, DONE = 1, NO_MEMORY = 2 };

// The code for one instruction set.
struct Kernels {
    const char *name;
    Status (*decompose_float)(const Job &);
    Status (*decompose_double)(const Job &);
    Status (*average_float)(const AverageJob &);
    Status (*average_double)(const AverageJob &);
    Status (*check_float)(const Job &);
    Status (*check_double)(const Job &);
    Status (*accumulate_float)(const Job &, const State &);
    Status (*accumulate_double)(const Job &, const State &);
    Status (*update_results_float)(const Job &, const State &);
    Status (*update_results_double)(const Job &, const State &);
};

// kernels.cpp defines them in a namespace for each instruction set; module.cpp chooses.
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
