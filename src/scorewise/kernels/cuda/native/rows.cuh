// Rows: predictions, each for some lanes of a warp, in shared memory or in their registers.
#pragma once

#include "functions.cuh"
#include "job.cuh"

constexpr unsigned ALL_LANES = 0xffffffff;

template <int LANES> INLINE float across_sum(float x) {
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}
template <int LANES> INLINE double across_sum(double x) {
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}
template <int LANES> INLINE float across_max(float x) {
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) x = larger(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}
template <int LANES> INLINE float across_min(float x) {
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) x = smaller(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

// Whether something is true in a lane of those that call this together.
template <int LANES> INLINE bool any_of(bool x) { return LANES == 1 ? x : __any_sync(ALL_LANES, x); }

// Four sums side by side: rounding errors of one long sum would add up, and it would wait for itself. They start
// from −0, which compilers may leave out.
struct Sum {
    float at[4] = {-0.f, -0.f, -0.f, -0.f};

    INLINE float value() const { return (at[0] + at[1]) + (at[2] + at[3]); }
};

// What both kinds of rows have. A row `R` has pieces of `PIECE` classes, which are taken in turns by `LANES`
// neighbouring lanes; all lanes of a warp must call its functions together. Its `pieces` calls `use` with a
// piece, that of another row, the first class, a number that differs between neighbours, and whether it is one. The
// other row may be of the other kind, if it has the same lanes.
template <class R> struct RowOf {
    // Call `use` with each number, that of another row, its class, and one of 0 to 3, which differs between neighbours.
    template <class Other, class Use> INLINE void each_with(const Other &other, Use use) const {
        self().pieces(other, [&](const auto &own, const auto &others, int first, int place, bool is_piece) {
            if (!is_piece) return;
#pragma unroll
            for (int i = 0; i < R::PIECE; i++) use(own.at[i], others.at[i], first + i, (place * R::PIECE + i) % 4);
        });
    }
    template <class Use> INLINE void each(Use use) const {
        each_with(self(), [&](float p, float, int k, int i) { use(p, k, i); });
    }
    template <class Use> INLINE void change(Use use) {
        self().change_with(self(), [&](float x, float, int k, int i) { return use(x, k, i); });
    }
    // The sum of what `term` returns for each number, that of another row, and its class.
    template <class Other, class Term> INLINE float sum_with(const Other &other, Term term) const {
        Sum sum;
        each_with(other, [&](float p, float q, int k, int i) { sum.at[i] += term(p, q, k); });
        return across_sum<R::LANES>(sum.value());
    }
    INLINE float top() const {
        float top = -infinite();
        each([&](float p, int, int) { top = larger(top, p); });
        return across_max<R::LANES>(top);
    }

  private:
    INLINE const R &self() const { return static_cast<const R &>(*this); }
    INLINE R &self() { return static_cast<R &>(*this); }
};

template <int N> struct alignas(4 * N) Piece {
    float at[N];
};
constexpr int VECTOR = N_CLASSES % 4 == 0 ? 4 : N_CLASSES % 2 == 0 ? 2 : 1;  // numbers of a row that are aligned

// A row in shared memory.
template <int N> struct SharedRow : RowOf<SharedRow<N>> {
    static constexpr int LANES = N, PIECE = VECTOR;
    static constexpr int N_PIECES = N_CLASSES / PIECE, FULL_STEPS = N_PIECES / N;  // that all lanes have
    float *numbers;
    int lane;  // from 0 to N − 1

    INLINE SharedRow() {}
    INLINE SharedRow(float *numbers, int lane) : numbers(numbers), lane(lane) {}

    INLINE const Piece<PIECE> &piece(int, int place) const { return all()[place]; }

    template <class Other, class Use> INLINE void pieces(const Other &other, Use use) const {
#pragma unroll 4
        for (int step = 0; step < FULL_STEPS; step++) {
            const int place = step * N + lane;
            use(all()[place], other.piece(step, place), place * PIECE, step, true);
        }
        if (FULL_STEPS * N < N_PIECES) {
            const bool is_piece = FULL_STEPS * N + lane < N_PIECES;
            const int place = is_piece ? FULL_STEPS * N + lane : 0;
            use(all()[place], other.piece(FULL_STEPS, place), place * PIECE, FULL_STEPS, is_piece);
        }
    }
    // Call `use` as `each_with` does; the numbers become what it returns.
    template <class Use> INLINE void change_with(const SharedRow &other, Use use) const {
#pragma unroll 4
        for (int step = 0; step < FULL_STEPS; step++) change_piece(other, step * N + lane, use);
        if (FULL_STEPS * N + lane < N_PIECES) change_piece(other, FULL_STEPS * N + lane, use);
    }

    // Call `use` with each number and those of three other rows; the numbers become what it returns.
    template <class Use> INLINE void change_with(const SharedRow &a, const SharedRow &b, const SharedRow &c, Use use) const {
#pragma unroll 4
        for (int place = lane; place < N_PIECES; place += N) {
            Piece<PIECE> changed = all()[place];
            const Piece<PIECE> x = a.all()[place], y = b.all()[place], z = c.all()[place];
#pragma unroll
            for (int i = 0; i < PIECE; i++) changed.at[i] = use(changed.at[i], x.at[i], y.at[i], z.at[i]);
            all()[place] = changed;
        }
    }
    template <class Term> INLINE float sum_with(const SharedRow &a, const SharedRow &b, const SharedRow &c, Term term) const {
        Sum sum;
#pragma unroll 4
        for (int place = lane; place < N_PIECES; place += N) {
            const Piece<PIECE> p = all()[place], x = a.all()[place], y = b.all()[place], z = c.all()[place];
#pragma unroll
            for (int i = 0; i < PIECE; i++) sum.at[i] += term(p.at[i], x.at[i], y.at[i], z.at[i]);
        }
        return across_sum<N>(sum.value());
    }
    using RowOf<SharedRow<N>>::sum_with;

    INLINE Piece<PIECE> *all() const { return reinterpret_cast<Piece<PIECE> *>(numbers); }

  private:
    template <class Use> INLINE void change_piece(const SharedRow &other, int place, Use use) const {
        Piece<PIECE> changed = all()[place];
        const Piece<PIECE> others = other.all()[place];
#pragma unroll
        for (int i = 0; i < PIECE; i++) changed.at[i] = use(changed.at[i], others.at[i], place * PIECE + i, i);
        all()[place] = changed;
    }
};

// A row in registers, of pieces of P numbers that are read at once.
template <int N, int P> struct RegisterRow : RowOf<RegisterRow<N, P>> {
    static constexpr int LANES = N, PIECE = P;
    static constexpr int N_PIECES = N_CLASSES / PIECE, STEPS = (N_PIECES + LANES - 1) / LANES;
    float numbers[STEPS * PIECE] = {};  // 0 beyond the last class

    struct Numbers {
        float at[PIECE];
    };
    INLINE const Numbers &piece(int step, int) const { return reinterpret_cast<const Numbers &>(numbers[step * PIECE]); }

    // Call `use` with a step of each piece of this lane, and its place in the row.
    template <class Use> static INLINE void each_step(Use use) {
        const int lane = threadIdx.x % LANES;
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const int place = step * LANES + lane;
            if ((step + 1) * LANES <= N_PIECES || place < N_PIECES) use(step, place);
        }
    }
    template <class Other, class Use> INLINE void pieces(const Other &other, Use use) const {
        const int lane = threadIdx.x % LANES;
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const int place = step * LANES + lane;
            const bool is_piece = (step + 1) * LANES <= N_PIECES || place < N_PIECES;
            use(piece(step, place), other.piece(step, is_piece ? place : 0), place * PIECE, step, is_piece);
        }
    }
    template <class Other, class Use> INLINE void change_with(const Other &other, Use use) {
        each_step([&](int step, int place) {
            const auto &others = other.piece(step, place);
#pragma unroll
            for (int i = 0; i < PIECE; i++) {
                float &x = numbers[step * PIECE + i];
                x = use(x, others.at[i], place * PIECE + i, (step * PIECE + i) % 4);
            }
        });
    }

    template <class Other, class Use> INLINE void change_with(const Other &a, const Other &b, const Other &c, Use use) {
        each_step([&](int step, int place) {
            const auto &x = a.piece(step, place), &y = b.piece(step, place), &z = c.piece(step, place);
#pragma unroll
            for (int i = 0; i < PIECE; i++) {
                float &number = numbers[step * PIECE + i];
                number = use(number, x.at[i], y.at[i], z.at[i]);
            }
        });
    }
    template <class Other, class Term> INLINE float sum_with(const Other &a, const Other &b, const Other &c, Term term) const {
        Sum sum;
        each_step([&](int step, int place) {
            const auto &x = a.piece(step, place), &y = b.piece(step, place), &z = c.piece(step, place);
#pragma unroll
            for (int i = 0; i < PIECE; i++)
                sum.at[(step * PIECE + i) % 4] += term(numbers[step * PIECE + i], x.at[i], y.at[i], z.at[i]);
        });
        return across_sum<LANES>(sum.value());
    }
    using RowOf<RegisterRow<N, P>>::sum_with;
};

// How far a sum is from 1, as the bits of a float, which are in order: those of NaN are the largest.
using Off = unsigned;
INLINE Off distance(float beyond) { return __float_as_uint(fabsf(beyond)); }
INLINE Off distance(float beyond, bool is_bad) { return is_bad ? ~0u : distance(beyond); }
INLINE Off further(Off a, Off b) { return a > b ? a : b; }

// The sum of a prediction, and whether one of its numbers is negative.
struct Shape {
    float total;
    bool is_bad;
};
template <class Row> INLINE Shape shape_of(const Row &p) {
    Sum total;
    float least = 0;
    p.each([&](float x, int, int i) {
        total.at[i] += x;
        least = smaller(least, x);
    });
    return {across_sum<Row::LANES>(total.value()), across_min<Row::LANES>(least) < 0};
}

// Make a row sum to 1 that need not; false if it cannot.
template <class Row> INLINE bool prepare(Row &row) {
    if (KIND == LOGITS) {
        const float top = row.top();
        Sum sum;
        row.change([&](float x, int, int i) {
            const float e = exp2_of(LOG2_E * (x - top));
            sum.at[i] += e;
            return e;
        });
        const float total = across_sum<Row::LANES>(sum.value()), share = ratio(1, total);
        row.change([&](float e, int, int) { return rounded_product(e, share); });
        return total < infinite();
    }
    if (KIND == MASSES) {
        const Shape shape = shape_of(row);
        const float share = ratio(1, shape.total);
        row.change([&](float x, int, int) { return rounded_product(x, share); });
        return !shape.is_bad && shape.total > 0 && share > 0 && share < infinite();
    }
    return true;
}

// Of which only the rows themselves are needed.
struct NoRule {
    static constexpr bool HAS_SOFTMAX = false;
    enum { NOTHING, N_VALUES };
    template <class Row> static INLINE Off summarize(const Job &, const Row &, float *values) {
        values[NOTHING] = 0;
        return 0;
    }
};

// Prepare a row and summarize it for a rule; how far it is from a prediction.
template <class Rule, class Row> INLINE Off summarize_prepared(const Job &job, Row &row, float *values) {
    if constexpr (KIND == LOGITS && Rule::HAS_SOFTMAX) {
        return Rule::summarize_softmax(row, values);
    } else {
        const bool is_prepared = prepare(row);
        const Off off = Rule::summarize(job, row, values);
        return is_prepared ? off : ~0u;
    }
}
