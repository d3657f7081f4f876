// Log, Brier, zero-one and spherical, which share their sums over classes.
#pragma once

#include "rows.cuh"

// Over the classes of a prediction p.
struct Sums {
    float total, squares, negative, top;  // Σp, Σp², Σp·log2 p and max p
    bool is_bad;  // whether a number is negative; with logarithms these are NaN instead
};

template <class Row> INLINE Sums sums_of(const Row &row) {
    Sum total, squares, negative;
    float top = 0, least = 0;
    row.each([&](float p, int, int i) {
        total.at[i] += p;
        if (WITH_SQUARES) squares.at[i] = fmaf(p, p, squares.at[i]);
        if (WITH_LOG) negative.at[i] = fmaf(p, log2_of(p + TINY), negative.at[i]);  // NaN below 0
        else least = smaller(least, p);
        if (WITH_TOP) top = larger(top, p);
    });
    Sums s{};
    s.total = across_sum<Row::LANES>(total.value());
    if (WITH_SQUARES) s.squares = across_sum<Row::LANES>(squares.value());
    if (WITH_LOG) s.negative = across_sum<Row::LANES>(negative.value());
    if (WITH_TOP) s.top = across_max<Row::LANES>(top);
    if (!WITH_LOG) s.is_bad = across_min<Row::LANES>(least) < 0;
    return s;
}

struct FirstFour {
    // Entropies under Brier are S² − Σp², and S differs between members of coarse numbers.
    enum { LOG, SQUARES, NORM, TOP, OFF, N_VALUES = IS_COARSE ? 5 : 4 };
    static constexpr int N_RULES = 4, N_COLUMNS = WITH_TOP ? 1 : 0, TOP_RESULT = 8;
    static constexpr bool HAS_SOFTMAX = true;
    static constexpr unsigned TOP_BIT = WITH_TOP ? 4 : 0, COLUMN_BITS = TOP_BIT;

    static INLINE void values_of(const Sums &s, float *values) {
        const float beyond = s.total - 1;
        values[LOG] = at_least_zero(fmaf(-LN2, s.negative, total_log_total(beyond)));
        values[SQUARES] = s.squares;
        values[NORM] = square_root(s.squares);
        values[TOP] = s.top;
        if (IS_COARSE) values[OFF] = beyond * beyond;
    }

    template <class Row> static INLINE Off summarize(const Job &, const Row &row, float *values) {
        const Sums s = sums_of(row);
        values_of(s, values);
        return distance(s.total - 1, s.is_bad);
    }
    // As `prepare` and `summarize`, of logits. With z the logits less their largest, e = exp z and S = Σe,
    // −Σ p log p = log S − Σ e·z/S.
    template <class Row> static INLINE Off summarize_softmax(Row &row, float *values) {
        const float top = row.top();
        Sum total, squares, along;
        row.change([&](float x, int, int i) {
            const float z = LOG2_E * (x - top), e = exp2_of(z);
            total.at[i] += e;
            if (WITH_SQUARES) squares.at[i] = fmaf(e, e, squares.at[i]);
            if (WITH_LOG) along.at[i] = fmaf(e, larger(z, -150.f), along.at[i]);  // 0 for z = −∞
            return e;
        });
        const float sum = across_sum<Row::LANES>(total.value()), share = ratio(1, sum);
        row.change([&](float e, int, int) { return rounded_product(e, share); });
        if (WITH_LOG) values[LOG] = LN2 * fmaf(-across_sum<Row::LANES>(along.value()), share, log2_of(sum));
        const float squared = WITH_SQUARES ? across_sum<Row::LANES>(squares.value()) * share * share : 0.f;
        values[SQUARES] = squared;
        values[NORM] = square_root(squared);
        values[TOP] = share;  // e is 1 there
        return sum < infinite() ? 0u : ~0u;
    }
    static INLINE bool are_bad(const float *averages) { return WITH_LOG && !(averages[LOG] < infinite()); }

    // Totals, aleatoric parts and their differences; bits of those that are too small for a difference.
    template <class Row>
    static INLINE unsigned totals(const Job &job, const Row &mean, const float *averages, float *results, float *memo) {
        const Sums s = sums_of(mean);
        float values[N_VALUES];
        values_of(s, values);
        *memo = s.squares;
        const float nan_if_unchecked = s.total - s.total, square = s.total * s.total, beyond = s.total - 1;
        const float spread = IS_COARSE ? averages[OFF] - beyond * beyond : 0;  // of S²
        const float total[] = {values[LOG], square - s.squares, s.total - s.top, s.total - values[NORM]};
        const float aleatoric[] = {averages[LOG], square + spread - averages[SQUARES], s.total - averages[TOP],
                                   s.total - averages[NORM]};
        const float epistemic[] = {values[LOG] - averages[LOG], averages[SQUARES] - s.squares, averages[TOP] - s.top,
                                   averages[NORM] - values[NORM]};
        const float size[] = {1 + values[LOG], averages[SQUARES], averages[TOP], averages[NORM]};
        const bool is_wanted[] = {WITH_LOG, WITH_SQUARES, WITH_TOP, WITH_SQUARES};
        unsigned doubtful = 0;
#pragma unroll
        for (int i = 0; i < N_RULES; i++) {
            results[3 * i] = at_least_zero(total[i]);
            results[3 * i + 1] = at_least_zero(aleatoric[i]);
            results[3 * i + 2] = at_least_zero(epistemic[i] + nan_if_unchecked);
            if (is_wanted[i] && epistemic[i] < job.far * size[i]) doubtful |= 1u << i;
        }
        return doubtful;
    }

    // The divergences of a member from the mean.
    template <class Row> static INLINE void diverge(const Job &, const Row &row, const Row &mean, float memo, float *values) {
        Sum entropy, distance, along;
        float largest_s2 = 0;
        row.each_with(mean, [&](float p, float q, int, int i) {
            const float d = p - q;
            if (WITH_LOG) entropy.at[i] = add_near_relative_entropy(q, p, d, entropy.at[i], largest_s2);
            if (WITH_SQUARES) {
                distance.at[i] = fmaf(d, d, distance.at[i]);
                along.at[i] = fmaf(d, q, along.at[i]);
            }
        });
        if (WITH_LOG) {
            values[LOG] = across_sum<Row::LANES>(entropy.value());
            if (any_of<Row::LANES>(!(largest_s2 < NEAR)))
                values[LOG] = row.sum_with(mean, [](float p, float q, int) { return relative_entropy(q, p, p - q); });
        }
        if (!WITH_SQUARES) return;
        const float squares = across_sum<Row::LANES>(distance.value()), inner = across_sum<Row::LANES>(along.value());
        const float parallel = ratio(inner, memo);  // only the part of d that is not parallel to the mean counts
        float rest = fmaf(-inner, parallel, squares);
        if (any_of<Row::LANES>(rest < 0.1f * squares)) {
            rest = row.sum_with(mean, [&](float p, float q, int) {
                const float across = (p - q) - q * parallel;
                return across * across;
            });
        }
        const float norm = square_root(at_least_zero(memo + 2 * inner + squares));
        values[SQUARES] = squares;
        values[NORM] = ratio(rest, norm + square_root(memo) * (parallel + 1));
    }

    // By how much a member's best class beats class k.
    static INLINE void add_column(const float *values, float p, float w, float *columns) {
        columns[0] = fmaf(w, values[TOP] - p, columns[0]);
    }

    template <class Row>
    static INLINE void finish(const Job &, unsigned doubtful, const float *averages, const Row *columns, float *results) {
        if (doubtful & 1) results[2] = at_least_zero(averages[LOG]);
        if (doubtful & 2) results[5] = averages[SQUARES];
        if (doubtful & 8) results[11] = at_least_zero(averages[NORM]);
        if (!WITH_TOP) return;
        float least = infinite();
        columns[0].each([&](float regret, int, int) { least = smaller(least, regret); });
        least = across_min<Row::LANES>(least);
        if (doubtful & 4) results[8] = at_least_zero(least);
    }
};
