// What Python passes to the kernel; as `Job` in kernels/cuda/_launch.py.
#pragma once

// Division by a number that is the same for all threads.
struct Divider {
    unsigned divisor, magic;  // magic is 2³²/divisor, rounded up

    __device__ __forceinline__ unsigned quotient(unsigned x) const { return divisor == 1 ? x : __umulhi(x, magic); }
};

struct Strides {
    long long instance, member, of_class;  // in numbers
};

struct Job {
    const void *members;  // (N, M, K)
    Strides strides;
    const float *weights;  // (N or 1, M), that sum to 1; null if all are equal
    long long n_instances;
    void *gradient;  // (N, M, K)
    Strides gradient_strides;
    const float *upstream[12];  // derivatives with respect to each component, (N); null for none
    float *results;  // total, aleatoric and epistemic of each rule, (3 * rules, N)
    int *invalid;    // becomes 1 if a member is no prediction
    const double *numbers;  // of the rule, in double and in single precision
    const float *singles;
    float parameter, inverse;  // of the rule, and 1 by it
    float tolerance;  // how far sums may be from 1; negative to check nothing
    float far;        // EU is a difference if it is this part of what is subtracted
    float share;      // of a member in all of them, if weights are equal
    int n_members;
    int instances;    // of a tile
    int stage;        // members of a tile
    int tile;         // numbers of one in shared memory, where warps work alone
    int spacing;      // from an instance of a tile to the next, in numbers
    int row_spacing;  // from a member of an instance of a tile to the next
    int is_by_instance;  // whether rows of a tile are in the order of instances, or of members
    Divider rows;     // by the members of an instance, or the instances of a member
    Divider pieces;   // by the pieces of `COPY` numbers that an instance has
};
