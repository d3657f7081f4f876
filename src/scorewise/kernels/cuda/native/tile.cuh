// Tiles: members of some instances on their way from global to shared memory.
#pragma once

#include "job.cuh"
#include "functions.cuh"
#include "prelude.cuh"

template <int N, class T> struct alignas(N * sizeof(T)) Some {
    T at[N];
};

// How many numbers something is about.
template <int N> struct Count {
    static constexpr int VALUE = N;
};

// Copy N numbers, in the background if they need no conversion.
template <int N = COPY, class To> INLINE void copy(To *to, const Element *from) {
    constexpr int SIZE = N * int(sizeof(Element));
    if constexpr (sizeof(To) == sizeof(Element) && SIZE >= 4) {
        copy_in_background<SIZE>(to, from);
    } else {
        const Some<N, Element> some = *reinterpret_cast<const Some<N, Element> *>(from);
#pragma unroll
        for (int i = 0; i < N; i++) to[i] = To(some.at[i]);
    }
}

// Copy numbers that follow each other, `COPY` at a time but for the last ones.
template <class To> INLINE void copy_run(To *to, const Element *from, int count, int lane) {
    const int whole = count / COPY * COPY;
#pragma unroll 4
    for (int i = lane * COPY; i < whole; i += 32 * COPY) copy(to + i, from + i);
    if (COPY > 1 && lane < count - whole) to[whole + lane] = To(from[whole + lane]);
}
