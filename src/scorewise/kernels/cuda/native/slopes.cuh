// Gradients of the first four rules (see scorewise/decompose/_gradient.py).
//
// The gradient of an entropy H at p is −log p, −2p, −[k = argmax p] and −p/‖p‖, but for constants of a row, which point
// out of the simplex. It is taken less that of the row's top class: what becomes of it behind a softmax, p·(v − Σ p·v),
// would cancel where that class is almost certain.
#pragma once

#include "job.cuh"
#include "rows.cuh"

// The derivatives with respect to the components of an instance; those that are not wanted are 0.
struct Upstream {
    float at[12];

    INLINE Upstream(const Job &job, long long instance) {
#pragma unroll
        for (int i = 0; i < 12; i++) at[i] = has(i) ? job.upstream[i][instance] : 0.f;
    }
    INLINE static constexpr bool has(int i) { return UPSTREAM >> i & 1; }
    INLINE float total(int rule) const { return at[3 * rule]; }
    INLINE float aleatoric(int rule) const { return at[3 * rule + 1]; }
    INLINE float epistemic(int rule) const { return at[3 * rule + 2]; }
};
enum { LOG_RULE, BRIER_RULE, ZERO_ONE_RULE, SPHERICAL_RULE };
constexpr bool HAS_ZERO_ONE = Upstream::has(6) || Upstream::has(7) || Upstream::has(8);
constexpr bool NEEDS_NORM = Upstream::has(9) || Upstream::has(10) || Upstream::has(11);

// The largest number of a row, the first class that has it, and that of another row there.
struct Top {
    float value = 0, other = 0;
    int place = 0;  // also where all numbers are NaN

    INLINE void see(float p, float q, int k) {  // classes come in their order
        const bool is_larger = p > value;
        place = is_larger ? k : place;
        other = is_larger ? q : other;
        value = larger(value, p);
    }
    // Of the classes of all lanes of a row.
    template <class Row> INLINE void combine() {
        if (Row::LANES == 1) return;
        const float largest = across_max<Row::LANES>(value);
        int first = value == largest ? place : N_CLASSES;
#pragma unroll
        for (int step = 1; step < Row::LANES; step *= 2) {
            const int its_first = __shfl_xor_sync(ALL_LANES, first, step);
            first = its_first < first ? its_first : first;
        }
        const int lane = threadIdx.x % 32, source = lane - lane % Row::LANES + first / Row::PIECE % Row::LANES;
        value = largest, place = first, other = __shfl_sync(ALL_LANES, other, source);
    }
};

// What gradients need of the mean.
struct MeanShape {
    float norm, inverse_norm;
    int top;  // class
    float largest;
};
template <class Row> INLINE MeanShape mean_shape(const Row &mean) {
    MeanShape shape{1, 1, 0, 0};
    if (NEEDS_NORM) {
        shape.norm = square_root(mean.sum_with(mean, [](float q, float, int) { return q * q; }));
        shape.inverse_norm = ratio(1, shape.norm);
    }
    if (HAS_ZERO_ONE) {
        Top top;
        mean.each([&](float q, int k, int) { top.see(q, q, k); });
        top.template combine<Row>();
        shape.top = top.place, shape.largest = top.value;
    }
    return shape;
}

// 1 by a probability, and its base-2 logarithm; the smallest normal number takes the place of smaller ones.
INLINE float inverse_of(float q) { return ratio(1, larger(q, TINY)); }
INLINE float log_2_of(float q) { return log2_of(larger(q, TINY)); }

// A mean, and these of its numbers.
template <class Row> struct MeanRows {
    Row numbers, inverses, logs;
};

// The gradient of a member.
//
// p/‖p‖ − q/‖q‖ is (d − q·(‖p‖ − ‖q‖)/‖q‖)/‖p‖ with d = p − q. So the parts of Brier and spherical are linear in d, q
// and p. log(p/q) is a series in r = d/q for small r. The part of zero-one is a number for each of two classes: the
// member's top class and that of the mean. Behind a softmax the gradient v with respect to probabilities becomes
// p·(v − Σ p·v).
struct Slopes {
    float of_d = 0, of_q = 0, of_p = 0, of_log_q = 0, of_log_p = 0, of_ratio = 0;
    float base;            // subtracted in all classes: the slope in the top class, without a softmax with zero-one's part
    float average = 0;     // behind a softmax, the mean slope
    float in_top;          // the gradient in the top class
    float in_top_of_mean;  // what zero-one adds in the top class of the mean, if it is another; else 0

    // `there` is the row's number in the top class of the mean.
    template <class Row, class MeanRow>
    INLINE Slopes(const Row &row, const MeanRows<MeanRow> &mean, const Top &top, float there, const Upstream &up,
                  const MeanShape &shape, float weight) {
        float inverse_norm = 1, growth = 0;
        if (NEEDS_NORM) {
            const float grown = row.sum_with(mean.numbers, [](float p, float q, int) { return (p - q) * (p + q); });
            const float norm = square_root(at_least_zero(fmaf(shape.norm, shape.norm, grown)));
            inverse_norm = ratio(1, larger(norm, TINY));
            growth = ratio(grown, norm + shape.norm) * shape.inverse_norm;
        }
        const float spherical = weight * up.epistemic(SPHERICAL_RULE) * inverse_norm;
        of_d = fmaf(2 * weight, up.epistemic(BRIER_RULE), spherical);
        of_q = -spherical * growth - weight * fmaf(2, up.total(BRIER_RULE), up.total(SPHERICAL_RULE) * shape.inverse_norm);
        of_p = -weight * fmaf(2, up.aleatoric(BRIER_RULE), up.aleatoric(SPHERICAL_RULE) * inverse_norm);
        of_log_q = -LN2 * weight * up.total(LOG_RULE);
        of_log_p = -LN2 * weight * up.aleatoric(LOG_RULE);
        of_ratio = LN2 * weight * up.epistemic(LOG_RULE);
        base = at(top.value, top.other, inverse_of(top.other), log_2_of(top.other));

        float at_top = weight * (up.epistemic(ZERO_ONE_RULE) - up.aleatoric(ZERO_ONE_RULE));
        float at_top_of_mean = -weight * (up.total(ZERO_ONE_RULE) + up.epistemic(ZERO_ONE_RULE));
        if (top.place == shape.top) at_top += at_top_of_mean, at_top_of_mean = 0;
        if (KIND == LOGITS) {
            average = row.sum_with(mean.numbers, mean.inverses, mean.logs, [&](float p, float q, float inverse_q, float log_q) {
                return p * (at(p, q, inverse_q, log_q) - base);
            });
            in_top = 0, in_top_of_mean = 0;
            if (!HAS_ZERO_ONE) return;
            // of all other classes, which 1 − value rounds
            const float rest = row.sum_with(row, [&](float p, float, int k) { return k == top.place ? 0.f : p; });
            in_top_of_mean = there * at_top_of_mean;
            in_top = top.value * (at_top * rest - average - in_top_of_mean);
            average += fmaf(top.value, at_top, in_top_of_mean);
        } else {
            base += at_top;
            in_top = 0, in_top_of_mean = at_top_of_mean;
        }
    }

    // That of all but zero-one, with respect to a probability.
    INLINE float at(float p, float q, float inverse_q, float log_q) const {
        constexpr bool HAS_SQUARES = Upstream::has(3) || Upstream::has(9) || Upstream::has(11);
        const float d = p - q;
        float slope = -0.f;
        if (Upstream::has(1) || Upstream::has(2)) {
            const float log_p = log_2_of(p);
            if (Upstream::has(1)) slope = fmaf(of_log_p, log_p, slope);
            if (Upstream::has(2)) {
                const float r = d * inverse_q;
                const float near = r * fmaf(r, fmaf(r, fmaf(r, -LOG2_E / 4, LOG2_E / 3), -LOG2_E / 2), LOG2_E);
                slope = fmaf(of_ratio, fabsf(r) < 0.05f ? near : log_p - log_q, slope);
            }
        }
        if (Upstream::has(0)) slope = fmaf(of_log_q, log_q, slope);
        if (Upstream::has(5) || Upstream::has(11)) slope = fmaf(of_d, d, slope);
        if (HAS_SQUARES) slope = fmaf(of_q, q, slope);
        if (Upstream::has(4) || Upstream::has(10)) slope = fmaf(of_p, p, slope);
        return slope;
    }

    // That in the top class of the mean, if it is another than the row's.
    INLINE float gradient_in_top_of_mean(float there, const MeanShape &mean) const {
        const float q = mean.largest;
        return gradient(there, q, inverse_of(q), log_2_of(q)) + in_top_of_mean;
    }

    // The gradient with respect to a number that the row had before `prepare`, but for what zero-one adds in two classes.
    INLINE float gradient(float p, float q, float inverse_q, float log_q) const {
        const float slope = at(p, q, inverse_q, log_q) - base;
        return KIND == LOGITS ? p * (slope - average) : slope;
    }
};

// Make a row that gradient.
template <class Row, class MeanRow> INLINE void differentiate(Row &row, const MeanRows<MeanRow> &mean, const Slopes &slopes) {
    row.change_with(mean.numbers, mean.inverses, mean.logs, [&](float p, float q, float inverse_q, float log_q) {
        return slopes.gradient(p, q, inverse_q, log_q);
    });
}
