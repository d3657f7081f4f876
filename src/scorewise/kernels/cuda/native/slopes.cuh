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
        constexpr int SLOTS[] = {UPSTREAM_SLOTS};
#pragma unroll
        for (int i = 0; i < 12; i++) at[i] = SLOTS[i] < 0 ? 0 : job.upstream[SLOTS[i] * job.n_instances + instance];
    }
    INLINE static constexpr bool has(int i) {
        constexpr int SLOTS[] = {UPSTREAM_SLOTS};
        return SLOTS[i] >= 0;
    }
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
    float rest = 0;  // the sum of all other numbers, which 1 − value rounds
    int place = 0;  // also where all numbers are NaN

    INLINE void see(float p, float q, int k) {  // classes come in their order
        rest += smaller(p, value);
        const bool is_larger = p > value;
        place = is_larger ? k : place;
        other = is_larger ? q : other;
        value = larger(value, p);
    }
    template <int LANES> INLINE void combine() {
#pragma unroll
        for (int step = 1; step < LANES; step *= 2) {
            const float of_lane = __shfl_xor_sync(ALL_LANES, value, step), there = __shfl_xor_sync(ALL_LANES, other, step);
            const int its_place = __shfl_xor_sync(ALL_LANES, place, step);
            if (HAS_ZERO_ONE && KIND == LOGITS) rest = rest + __shfl_xor_sync(ALL_LANES, rest, step) + smaller(value, of_lane);
            const bool is_first = of_lane > value || (of_lane == value && its_place < place);
            place = is_first ? its_place : place;
            other = is_first ? there : other;
            value = larger(value, of_lane);
        }
    }
};

// What gradients need of the mean.
struct MeanShape {
    float norm, inverse_norm;
    int top;
};
template <class Row> INLINE MeanShape mean_shape(const Row &mean) {
    MeanShape shape{1, 1, 0};
    if (NEEDS_NORM) {
        shape.norm = square_root(mean.sum_with(mean, [](float q, float, int) { return q * q; }));
        shape.inverse_norm = ratio(1, shape.norm);
    }
    if (HAS_ZERO_ONE) {
        Top top;
        mean.each([&](float q, int k, int) { top.see(q, q, k); });
        top.combine<Row::LANES>();
        shape.top = top.place;
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

// The gradient with respect to the probabilities of a member.
//
// p/‖p‖ − q/‖q‖ is (d − q·(‖p‖ − ‖q‖)/‖q‖)/‖p‖ with d = p − q. So the parts of Brier and spherical are linear in d, q
// and p. log(p/q) is a series in r = d/q for small r. The part of zero-one is a number for each of two classes.
struct Slopes {
    Top top;
    float of_d = 0, of_q = 0, of_p = 0, of_log_q = 0, of_log_p = 0, of_ratio = 0, at_top = 0, at_top_of_mean = 0;
    float probability_at_top_of_mean = 0;
    float base;  // that of all but zero-one in the top class
    int top_of_mean;

    template <class Row> INLINE Slopes(const Row &row, const Row &mean_row, const Upstream &up, const MeanShape &mean, float weight)
        : top_of_mean(mean.top) {
        float inverse_norm = 1, growth = 0;
        Sum sum;
        row.each_with(mean_row, [&](float p, float q, int k, int i) {
            if (NEEDS_NORM) sum.at[i] = fmaf(p - q, p + q, sum.at[i]);
            top.see(p, q, k);
            if (HAS_ZERO_ONE && KIND == LOGITS) probability_at_top_of_mean = k == mean.top ? p : probability_at_top_of_mean;
        });
        top.combine<Row::LANES>();
        if (NEEDS_NORM) {
            const float grown = across_sum<Row::LANES>(sum.value());
            const float norm = square_root(at_least_zero(fmaf(mean.norm, mean.norm, grown)));
            inverse_norm = ratio(1, larger(norm, TINY));
            growth = ratio(grown, norm + mean.norm) * mean.inverse_norm;
        }
        if (HAS_ZERO_ONE) probability_at_top_of_mean = across_sum<Row::LANES>(probability_at_top_of_mean);
        const float spherical = weight * up.epistemic(SPHERICAL_RULE) * inverse_norm;
        of_d = fmaf(2 * weight, up.epistemic(BRIER_RULE), spherical);
        of_q = -spherical * growth - weight * fmaf(2, up.total(BRIER_RULE), up.total(SPHERICAL_RULE) * mean.inverse_norm);
        of_p = -weight * fmaf(2, up.aleatoric(BRIER_RULE), up.aleatoric(SPHERICAL_RULE) * inverse_norm);
        of_log_q = -LN2 * weight * up.total(LOG_RULE);
        of_log_p = -LN2 * weight * up.aleatoric(LOG_RULE);
        of_ratio = LN2 * weight * up.epistemic(LOG_RULE);
        at_top = weight * (up.epistemic(ZERO_ONE_RULE) - up.aleatoric(ZERO_ONE_RULE));
        at_top_of_mean = -weight * (up.total(ZERO_ONE_RULE) + up.epistemic(ZERO_ONE_RULE));
        if (top.place == top_of_mean) at_top += at_top_of_mean, at_top_of_mean = 0;
        base = at(top.value, top.other, inverse_of(top.other), log_2_of(top.other));
    }

    // That of all but zero-one.
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

    // Add zero-one's part to the gradient of a row, in shared memory. The average is that of the other parts.
    template <class T> INLINE void add_zero_one(T *gradient, float average) const {
        const float of_mean = KIND == LOGITS ? probability_at_top_of_mean * at_top_of_mean : at_top_of_mean;
        gradient[top.place] = T(KIND == LOGITS ? top.value * (at_top * top.rest - average - of_mean) : 0.f);
        if (of_mean != 0) gradient[top_of_mean] = T(float(gradient[top_of_mean]) + of_mean);
    }
};

// Make a row its gradient with respect to the numbers that it had before `prepare`, but for zero-one's part in two
// classes. Behind a softmax the gradient v with respect to probabilities becomes p·(v − Σ p·v). Return that sum.
template <class Row> INLINE float differentiate(Row &row, const MeanRows<Row> &mean, const Slopes &slopes) {
    float average = 0, of_others = HAS_ZERO_ONE ? -slopes.at_top : -0.f;
    if (KIND == LOGITS) {
        average = row.sum_with(mean.numbers, mean.inverses, mean.logs, [&](float p, float q, float inverse_q, float log_q) {
            return p * (slopes.at(p, q, inverse_q, log_q) - slopes.base);
        });
        of_others = -average;
        if (HAS_ZERO_ONE) of_others -= slopes.top.value * slopes.at_top + slopes.probability_at_top_of_mean * slopes.at_top_of_mean;
    }
    row.change_with(mean.numbers, mean.inverses, mean.logs, [&](float p, float q, float inverse_q, float log_q) {
        const float slope = slopes.at(p, q, inverse_q, log_q) - slopes.base + of_others;
        return KIND == LOGITS ? p * slope : slope;
    });
    return average;
}

// What only a mean is needed of.
struct NoRule {
    enum { NOTHING, N_VALUES };
    template <class Row> static INLINE Off summarize(const Job &, const Row &, float *values) {
        values[NOTHING] = 0;
        return 0;
    }
};
