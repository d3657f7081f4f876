// Sums over the classes of one prediction, which log, Brier, zero-one and spherical share.
#pragma once

#include "members.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

constexpr int BLOCK = 16;  // vectors that are summed in the precision of the predictions

constexpr Structure FIRST_FOUR[] = {Structure::LOG, Structure::BRIER, Structure::ZERO_ONE, Structure::SPHERICAL};

// One item for each of the first four structures.
template <class Item> struct OfFirstFour {
    Item items[4];

    INLINE Item &operator[](Structure structure) { return items[int(structure)]; }
    INLINE const Item &operator[](Structure structure) const { return items[int(structure)]; }
};

// Over the classes of a prediction p.
template <class T> struct Sums {
    V<T> total;     // Σp
    V<T> squares;   // Σp²
    V<T> doubt;     // Σp·(1 − p), with digits that Σp − Σp² would lose
    V<T> negative;  // Σp·log p, in LOG_UNITs
    V<T> top;       // max p
};

// One of an instance's members and how far the mean is from it, by turns: in two arrays they would
// often have addresses that differ by multiples of 4096, and loads would wait for stores.
template <class T> struct Center {
    V<T> anchor, shift;
};

// A long sum of vectors in float64, with what float64 predictions would lose to rounding.
template <class T> struct LongSum {
    Wide<T> sum{}, lost{};

    INLINE void add(V<T> part) {
        const Wide<T> term = widen(part), next = sum + term;
        if constexpr (sizeof(T) == 8) lost = lost + (term - (next - sum));
        sum = next;
    }
    INLINE V<T> value() const { return narrow(sum + lost); }
};

// Sum over the classes of p, add w·(p − anchor) to the shift, and gather signs.
//
// Blocks of vectors are summed in T, and these sums in float64: the rounding errors of many terms
// would add up. Bits of numbers that are not negative are ordered as these are, and cheaper to
// compare.
template <class T, bool WITH_LOG, bool SQUARED, bool MOVE, bool TWO = false>
INLINE Sums<T> sums_over_classes(Row<T> row, Center<T> *center, V<T> w, Bits<T> &signs) {
    Bits<T> top{}, signs_here{};
    auto block = [&](int start, int stop) __attribute__((always_inline)) {
        Sums<T> s{};
        for (int r = start; r < stop; r++) {
            V<T> p = row[r];
            if constexpr (MOVE) row.prefetch(r);
            if constexpr (MOVE) center[r].shift = fma(w, p - center[r].anchor, center[r].shift);
            Bits<T> bits = to_bits(p);
            signs_here |= bits;
            top = larger(bits, top);
            s.total += p;
            if constexpr (SQUARED) {
                s.squares = fma(p, p, s.squares);
                s.doubt = fma(p, T(1) - p, s.doubt);
            }
            if constexpr (WITH_LOG) s.negative = fma(p, cheap_log(p), s.negative);
        }
        return s;
    };
    Sums<T> s;
    if (TWO || row.n <= BLOCK) {
        s = block(0, TWO ? 2 : row.n);
    } else {
        LongSum<T> total, squares, doubt, negative;
        for (int start = 0; start < row.n; start += BLOCK) {
            Sums<T> part = block(start, start + BLOCK < row.n ? start + BLOCK : row.n);
            total.add(part.total);
            squares.add(part.squares);
            doubt.add(part.doubt);
            negative.add(part.negative);
        }
        s = {total.value(), squares.value(), doubt.value(), negative.value(), V<T>{}};
    }
    s.top = from_bits(top);
    signs |= signs_here;
    return s;
}

// What follows from the sums of a prediction; an array, as averages over members are taken of all.
// With S = Σp, which is 1 but for rounding errors:
enum Value {
    SURPRISE,  // −Σp·log(p/S), the entropy under log
    NEGATIVE,  // Σp·log p
    GINI,      // S² − Σp², the entropy under Brier: Σp·(1 − p) if S = 1
    SQUARES,   // Σp²
    GAP,       // S − ‖p‖, the entropy under spherical
    NORM,      // ‖p‖
    MISS,      // S − max p, the entropy under zero-one: 1 − max p if S = 1
    TOP,       // max p
    N_VALUES
};

template <class T> struct Values {
    V<T> at[N_VALUES];
};

// Which of them are computed; others are not set.
template <bool WITH_LOG, bool SQUARED> constexpr bool is_computed(int value) {
    return value >= MISS || (value <= NEGATIVE ? WITH_LOG : SQUARED);
}

// S·log S, from S − 1: a series near S = 1, where all checked predictions are.
template <class T> INLINE V<T> total_log_total(V<T> beyond) {
    static constexpr T c[] = {T(1), T(1. / 2), T(-1. / 6), T(1. / 12), T(-1. / 20), T(1. / 30)};
    V<T> value = beyond * polynomial<T>(beyond, c);
    if (__builtin_expect(any(absolute(beyond) > T(0.002)), false))
        value = (beyond + T(1)) * log1p<T>(beyond);
    return value;
}

template <class T, bool WITH_LOG, bool SQUARED> INLINE Values<T> values_of(const Sums<T> &s) {
    Values<T> v;
    V<T> beyond = s.total - T(1);
    v.at[MISS] = at_least_zero(s.total - s.top);
    v.at[TOP] = s.top;
    if constexpr (WITH_LOG) {  // −Σp·log(p/S)
        v.at[NEGATIVE] = s.negative * T(LOG_UNIT<T>);
        v.at[SURPRISE] = at_least_zero(total_log_total<T>(beyond) - v.at[NEGATIVE]);
    }
    if constexpr (SQUARED) {
        v.at[SQUARES] = s.squares;
        v.at[GINI] = at_least_zero(fma(s.total, beyond, s.doubt));  // S² − Σp²
        v.at[NORM] = sqrt(s.squares);
        v.at[GAP] = v.at[GINI] / (s.total + v.at[NORM]);  // S − ‖p‖
    }
    return v;
}

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
