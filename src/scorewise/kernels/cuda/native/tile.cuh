// Tiles: members of some instances on their way from global to shared memory.
#pragma once

#include "job.cuh"
#include "functions.cuh"
#include "prelude.cuh"

template <int N, class T> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Some {
    T at[N];
};

// How many numbers something is about.
template <int N> struct Count {
    static constexpr int VALUE = N;
};

// Copy N numbers, both some numbers further on, in the background if they need no conversion.
template <int N = COPY, int OFFSET = 0, class To> INLINE void copy(To *to, const Element *from) {
    constexpr int SIZE = N * int(sizeof(Element));
    if constexpr (sizeof(To) == sizeof(Element) && SIZE >= 4) {
        copy_in_background<SIZE, OFFSET * int(sizeof(Element))>(to, from);
    } else {
        const Some<N, Element> some = *reinterpret_cast<const Some<N, Element> *>(from + OFFSET);
#pragma unroll
        for (int i = 0; i < N; i++) to[OFFSET + i] = To(some.at[i]);
    }
}

// Copy numbers that follow each other, `COPY` at a time but for the last ones.
template <class To> INLINE void copy_run(To *to, const Element *from, int count, int lane) {
    constexpr int STEP = 32 * COPY;
    const int whole = count / COPY * COPY;
    int i = lane * COPY;
    for (; i + 3 * STEP < whole; i += 4 * STEP) {  // four with one computation of addresses
        copy(to + i, from + i);
        copy<COPY, STEP>(to + i, from + i);
        copy<COPY, 2 * STEP>(to + i, from + i);
        copy<COPY, 3 * STEP>(to + i, from + i);
    }
#pragma unroll 1
    for (; i < whole; i += STEP) copy(to + i, from + i);
    if (COPY > 1 && lane < count - whole) to[whole + lane] = To(from[whole + lane]);
}

// The same back to global memory.
INLINE void write_run(Element *to, const Element *from, int count, int lane) {
    using Numbers = Some<COPY, Element>;
    constexpr int STEP = 32 * COPY;
    const int whole = count / COPY * COPY;
#pragma unroll 4
    for (int i = lane * COPY; i < whole; i += STEP) *reinterpret_cast<Numbers *>(to + i) = *reinterpret_cast<const Numbers *>(from + i);
    if (COPY > 1 && lane < count - whole) to[whole + lane] = from[whole + lane];
}
