// The other structures of rules (scorewise/rules/structures.py), one class for each.
//
// The formulas are those of `scorewise/rules/`, where the reasons for their forms are explained.
#pragma once

#include "job.cuh"
#include "rows.cuh"
#include "tile.cuh"

// The entropy H(p); what EU is a difference of, a convex function of p that is −H but for terms which are
// linear in p; and the size of the numbers whose rounding errors it has.
struct Entropy {
    float value, convex, size;
    Off off;
};

// Rules that summarize logits after their softmax, and whose EU is not a regret that is 0 where members agree on the
// largest class.
struct WithoutTop {
    static constexpr bool HAS_SOFTMAX = false;
    static constexpr unsigned TOP_BIT = 0;
    static constexpr int TOP = 0, TOP_RESULT = 0;
};

// Rules with a smooth entropy, whose EU is a difference of entropies or a mean divergence. `R` has both.
template <class R> struct Smooth : WithoutTop {
    enum { ENTROPY, CONVEX, N_VALUES };
    static constexpr int N_RULES = 1, N_COLUMNS = 0;
    static constexpr unsigned COLUMN_BITS = 0;

    template <class Row> static INLINE Off summarize(const Job &job, const Row &row, float *values) {
        const Entropy h = R::entropy(job, row);
        values[ENTROPY] = h.value;
        values[CONVEX] = h.convex;
        return h.off;
    }
    static INLINE bool are_bad(const float *) { return false; }
    template <class Row>
    static INLINE unsigned totals(const Job &job, const Row &mean, const float *averages, float *results, float *memo) {
        const Entropy h = R::entropy(job, mean);
        *memo = R::memo(mean);
        const float epistemic = averages[CONVEX] - h.convex;
        results[0] = h.value;
        results[1] = averages[ENTROPY];
        results[2] = at_least_zero(epistemic);
        return epistemic < job.far * h.size;
    }
    template <class Row>
    static INLINE void diverge(const Job &job, const Row &row, const Row &mean, float memo, float *values) {
        values[ENTROPY] = R::divergence(job, row, mean, memo);
    }
    static INLINE void add_column(const float *, float, float, float *) {}
    template <class Row>
    static INLINE void finish(const Job &, unsigned doubtful, const float *averages, const Row *, float *results) {
        if (doubtful) results[2] = at_least_zero(averages[ENTROPY]);
    }
    template <class Row> static INLINE float memo(const Row &) { return 0; }
};

// -- separable: H = Σ w·p·(1 − (p/S)^rate)/rate, −Σ w·p·log(p/S) at rate = 0 ------------------------

template <bool IS_LOG, bool WEIGHTED> struct Separable : Smooth<Separable<IS_LOG, WEIGHTED>> {
    // Weights of classes, and the largest of them.
    static INLINE float weight(const Job &job, int k) { return WEIGHTED ? job.singles[k] : 1.f; }

    template <class Row> static INLINE Entropy entropy(const Job &job, const Row &row) {
        const float rate = job.parameter, inverse = job.inverse;
        Sum sure, others, less_one, powers, weighted;
        float least = 0;
        row.each([&](float p, int k, int i) {
            const float w = p * weight(job, k), log2_p = log2_of(p + TINY);
            // A heavy class that is almost certain needs all digits of S − 1; one at most is above ½.
            if (WEIGHTED) sure.at[i] += p > 0.5f ? p : 0.f;
            others.at[i] += WEIGHTED && p > 0.5f ? 0.f : p;
            least = smaller(least, p);
            if (WEIGHTED) weighted.at[i] += w;
            if (IS_LOG) {
                less_one.at[i] = fmaf(w, log2_p, less_one.at[i]);
            } else {
                const float power = exp2_of(rate * log2_p);
                less_one.at[i] = fmaf(w, power - 1, less_one.at[i]);
                powers.at[i] = fmaf(w, power, powers.at[i]);
            }
        });
        const float top = WEIGHTED ? across_sum<Row::LANES>(sure.value()) : 0, rest = across_sum<Row::LANES>(others.value());
        const float beyond = (top > 0 ? top - 1 : -1.f) + rest, sum = across_sum<Row::LANES>(less_one.value());
        const float total = WEIGHTED ? across_sum<Row::LANES>(weighted.value()) : 1 + beyond;
        const float largest = weight(job, N_CLASSES);
        const Off off = distance(beyond, across_min<Row::LANES>(least) < 0);
        if (IS_LOG) {
            const float convex = LN2 * sum, h = at_least_zero(fmaf(log1p_of(beyond), total, -convex));
            return {h, convex, larger(h, 0.25f * largest), off};
        }
        const float convex = sum * inverse, scale = power_less_one(beyond, -rate);
        const float h = at_least_zero(-fmaf(scale, fmaf(total, inverse, convex), convex));
        // Sums of steep powers are small, and so are their errors; those of flat ones are a large linear
        // part, and those of very steep ones have errors of their exponents.
        if (rate < 0.5f || rate > 3) return {h, convex, larger(h, 0.25f * largest), off};
        const float scaled = across_sum<Row::LANES>(powers.value()) * inverse;
        return {h, scaled, scaled * (rate + 1), off};
    }

    template <class Row> static INLINE float divergence(const Job &job, const Row &row, const Row &mean, float) {
        const float rate = job.parameter, inverse = job.inverse;
        return row.sum_with(mean, [&](float p, float q, int k) {
            if (IS_LOG) return weight(job, k) * relative_entropy(q, p, p - q);
            return weight(job, k) * power_excess(q, p, p - q, rate, inverse, power(q, rate), [&] { return power(p, rate); });
        });
    }
};

// -- norm: H = S − ‖p‖_α ----------------------------------------------------------------------------

struct Norm : Smooth<Norm> {
    // With the others in parts u of the top, S − ‖p‖ = Σ others − top·((1 + Σu^α)^{1/α} − 1).
    template <class Row> static INLINE Entropy entropy(const Job &job, const Row &row) {
        if (N_CLASSES == 2) return entropy_of_two(job, row);
        const float alpha = job.parameter, top = larger(row.top(), TINY), inverse = ratio(1, top);
        Sum others, powers, tops;
        float least = 0;
        row.each([&](float p, int, int i) {
            const bool is_top = p == top;
            const float u = is_top ? 0.f : p;
            tops.at[i] += is_top ? 1.f : 0.f;
            others.at[i] += u;
            powers.at[i] += exp2_of(alpha * log2_of(fmaf(u, inverse, TINY)));
            least = smaller(least, p);
        });
        const float tied = across_sum<Row::LANES>(tops.value()) - 1;
        const float rest = across_sum<Row::LANES>(others.value()) + tied * top, sum = across_sum<Row::LANES>(powers.value()) + tied;
        const float grown = top * expm1_of(log1p_of(sum) * job.inverse), norm = top + grown;
        const Off off = distance((top - 1) + rest, across_min<Row::LANES>(least) < 0);
        return {at_least_zero(rest - grown), norm, norm, off};
    }

    // There is one other, and no sum of which the logarithm is beyond its series.
    template <class Row> static INLINE Entropy entropy_of_two(const Job &job, const Row &row) {
        float other = infinite(), sum = 0;
        row.each([&](float p, int, int) {
            other = smaller(other, p);
            sum += p;
        });
        other = across_min<Row::LANES>(other), sum = across_sum<Row::LANES>(sum);
        const float top = larger(row.top(), TINY), u = fmaf(other, ratio(1, top), TINY);
        const float x = log1p_up_to_one(exp2_of(job.parameter * log2_of(u))) * job.inverse;
        const float grown = top * fmaf(x * x, bend_series(x), x), norm = top + grown;
        const float rest = fmaf(0.f, sum, other);  // NaN if a number is
        return {at_least_zero(rest - grown), norm, norm, distance(sum - 1, other < 0)};
    }

    template <class Row> static INLINE float memo(const Row &mean) { return mean.top(); }

    // D(q, p), which does not change when q is scaled. Scaled so that the tangent of Σx^α at q meets p at
    // the height of q, it is ‖p‖ − ‖q‖, that is ‖q‖·((1 + T/Σq^α)^{1/α} − 1) with T the height of p above
    // that tangent.
    template <class Row>
    static INLINE float divergence(const Job &job, const Row &row, const Row &mean, float mean_top) {
        const float alpha = job.parameter, rate = alpha - 1, inverse_rate = ratio(1, rate);
        const float inverse = ratio(1, larger(mean_top, TINY));
        Sum along, own;
        row.each_with(mean, [&](float p, float q, int, int i) {
            const float slope = power(q * inverse, rate);
            along.at[i] = fmaf(p - q, slope, along.at[i]);
            own.at[i] = fmaf(q, slope, own.at[i]);
        });
        const float own_sum = across_sum<Row::LANES>(own.value());
        const float parallel = ratio(across_sum<Row::LANES>(along.value()), own_sum), lift = at_least_zero(parallel + 1);
        const float top = larger(row.top(), TINY), share = ratio(1, top);
        Sum excess, powers, of_member;
        row.each_with(mean, [&](float p, float q, int, int i) {
            const float a = p * share, b = q * lift * share;  // powers of small numbers underflow
            const float slope = power(b, rate), own_power = power(a, rate);
            excess.at[i] += power_excess(b, a, ((p - q) - q * parallel) * share, rate, inverse_rate, slope, [&] { return own_power; });
            powers.at[i] = fmaf(b, slope, powers.at[i]);
            of_member.at[i] = fmaf(a, own_power, of_member.at[i]);
        });
        const float rise = rate * across_sum<Row::LANES>(excess.value()), height = across_sum<Row::LANES>(powers.value());
        const float member = across_sum<Row::LANES>(of_member.value());
        const bool is_near = rise < height;
        const float step = log1p_of(is_near ? ratio(rise, height) : 0.f) * job.inverse;
        const float near = power(height, job.inverse) * expm1_of(step);
        const float mean_norm = lift * mean_top * share * power(own_sum * inverse, job.inverse);
        return top * (is_near ? near : power(member, job.inverse) - mean_norm);
    }
};

// -- decisions: H = min_a Σ p·c_a, from costs of which the least of each class is taken out ---------

template <int N_ACTIONS> struct Costs : WithoutTop {
    enum { LEAST, IS_CLOSE, REGRETS, N_VALUES = REGRETS + N_ACTIONS };
    static constexpr int N_RULES = 1, N_COLUMNS = 0;
    static constexpr unsigned COLUMN_BITS = 0;
    static constexpr int STRIDE = (N_ACTIONS + 3) / 4 * 4;  // from the costs of a class to those of the next
    static constexpr int LEAST_COSTS = N_CLASSES * STRIDE, BY_ACTION = LEAST_COSTS + N_CLASSES;  // where these are

    // The least expected cost, the regret of each action, and whether rounding errors may have chosen the best.
    template <class Row> static INLINE Off summarize(const Job &job, const Row &row, float *values) {
        float sums[STRIDE];
        Sum total;
        float smallest = 0;
        add_costs(job.singles, row, sums, [&](float p, int i) {
            total.at[i] += p;
            smallest = smaller(smallest, p);
        });
        float best = sums[0], next = 1e38f;
#pragma unroll
        for (int a = 1; a < N_ACTIONS; a++) {
            next = smaller(next, larger(best, sums[a]));
            best = smaller(best, sums[a]);
        }
        values[LEAST] = best;
        values[IS_CLOSE] = next - best > (next + best) * ((4 + N_CLASSES) * 0x1p-22f) ? 0 : 1;
#pragma unroll
        for (int a = 0; a < N_ACTIONS; a++) values[REGRETS + a] = sums[a] - best;
        return distance(across_sum<Row::LANES>(total.value()) - 1, across_min<Row::LANES>(smallest) < 0);
    }
    static INLINE bool are_bad(const float *) { return false; }

    // What was taken out has the same mean as that of the members. A difference of sums needs a second look, and so
    // do regrets of 0 if some choice was close.
    template <class Row>
    static INLINE unsigned totals(const Job &job, const Row &mean, const float *averages, float *results, float *) {
        float values[N_VALUES];
        summarize(job, mean, values);
        const float *least = job.singles + LEAST_COSTS;
        const float base = mean.sum_with(mean, [&](float p, float, int k) { return p * least[k]; });
        const float epistemic = least_regret(averages);
        results[0] = base + values[LEAST];
        results[1] = base + averages[LEAST];
        results[2] = epistemic;
        return epistemic < job.far * (averages[LEAST] + epistemic) && (epistemic > 0 || averages[IS_CLOSE] > 0);
    }

    // In double precision, as differences of costs must keep their digits; costs that differ by less than their
    // own rounding errors are tied.
    template <class Row> static INLINE void diverge(const Job &job, const Row &row, const Row &, float, float *values) {
        double sums[STRIDE];
        add_costs(job.numbers, row, sums, [](float, int) {});
        double best = sums[0];
#pragma unroll
        for (int a = 1; a < N_ACTIONS; a++) best = sums[a] < best ? sums[a] : best;
#pragma unroll
        for (int a = 0; a < N_ACTIONS; a++) {
            const double regret = sums[a] - best;
            values[REGRETS + a] = regret <= (sums[a] + best) * ((4.0 + N_CLASSES) * 0x1p-50) ? 0.f : float(regret);
        }
    }
    static INLINE void add_column(const float *, float, float, float *) {}
    template <class Row>
    static INLINE void finish(const Job &, unsigned doubtful, const float *averages, const Row *, float *results) {
        if (doubtful) results[2] = least_regret(averages);
    }

  private:
    // The expected cost of each action; `see` is called with each number, and with one of 0 to 3.
    template <class T, class Row, class See> static INLINE void add_costs(const T *costs, const Row &row, T *sums, See see) {
#pragma unroll
        for (int a = 0; a < STRIDE; a++) sums[a] = 0;
#if CLASS_LANES  // many lanes have the same class, and read its costs for all actions together
        row.each([&](float p, int k, int i) {
            see(p, i);
            asm volatile("" ::: "memory");  // or the compiler would read those of all classes first, and spill
            constexpr int AT_ONCE = 16 / sizeof(T);
            const Some<AT_ONCE, T> *own = reinterpret_cast<const Some<AT_ONCE, T> *>(costs + k * STRIDE);
#pragma unroll
            for (int j = 0; j < STRIDE; j++) sums[j] = fma(T(p), own[j / AT_ONCE].at[j % AT_ONCE], sums[j]);
        });
#else  // neighbours have neighbouring classes, and read the costs of these together, of one action after the other
        row.pieces(row, [&](const auto &own, const auto &, int first, int, bool is_piece) {
            if (!is_piece) return;
            asm volatile("" ::: "memory");
            constexpr int N = Row::PIECE;
#pragma unroll
            for (int i = 0; i < N; i++) see(own.at[i], i);
#pragma unroll
            for (int a = 0; a < N_ACTIONS; a++) {
                const Some<N, T> some = *reinterpret_cast<const Some<N, T> *>(costs + BY_ACTION + a * N_CLASSES + first);
#pragma unroll
                for (int i = 0; i < N; i++) sums[a] = fma(T(own.at[i]), some.at[i], sums[a]);
            }
        });
#endif
#pragma unroll
        for (int a = 0; a < N_ACTIONS; a++) sums[a] = across_sum<Row::LANES>(sums[a]);
    }
    static INLINE float least_regret(const float *averages) {
        float least = averages[REGRETS];
#pragma unroll
        for (int a = 1; a < N_ACTIONS; a++) least = smaller(least, averages[REGRETS + a]);
        return least;
    }
};

// -- decisions: H = 1 − the sum of the k largest -----------------------------------------------------

template <int COUNT> struct Largest : WithoutTop {
    enum { SUM, THRESHOLD, N_VALUES };
    static constexpr int N_RULES = 1, N_COLUMNS = 2;
    static constexpr unsigned COLUMN_BITS = 1;

    struct Best {
        float at[COUNT];  // in falling order

        INLINE Best() {
#pragma unroll
            for (int i = 0; i < COUNT; i++) at[i] = -infinite();
        }
        INLINE void insert(float x) {
            if (!(x > at[COUNT - 1])) return;
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                const float here = at[i];
                at[i] = larger(x, here);
                x = smaller(x, here);
            }
        }
        template <int LANES> INLINE void combine() {
#pragma unroll
            for (int step = 1; step < LANES; step *= 2) {
                Best other;
#pragma unroll
                for (int i = 0; i < COUNT; i++) other.at[i] = __shfl_xor_sync(ALL_LANES, at[i], step);
#pragma unroll
                for (int i = 0; i < COUNT; i++) insert(other.at[i]);
            }
        }
        INLINE float sum() const {
            float sum = 0;
#pragma unroll
            for (int i = COUNT - 1; i >= 0; i--) sum += at[i];
            return sum;
        }
    };

    template <class Row> static INLINE Off summarize(const Job &job, const Row &row, float *values) {
        Best best;
        Sum total;
        float least = 0;
        row.each([&](float p, int, int i) {
            best.insert(p);
            total.at[i] += p;
            least = smaller(least, p);
        });
        best.template combine<Row::LANES>();
        values[SUM] = best.sum();
        values[THRESHOLD] = best.at[COUNT - 1];
        return distance(across_sum<Row::LANES>(total.value()) - 1, across_min<Row::LANES>(least) < 0);
    }

    template <class Row>
    static INLINE unsigned totals(const Job &job, const Row &mean, const float *averages, float *results, float *) {
        float values[N_VALUES];
        summarize(job, mean, values);
        const float total = mean.sum_with(mean, [](float p, float, int) { return p; }), epistemic = averages[SUM] - values[SUM];
        results[0] = at_least_zero(total - values[SUM]);
        results[1] = at_least_zero(total - averages[SUM]);
        results[2] = at_least_zero(epistemic);
        return epistemic < job.far * averages[SUM];
    }
    template <class Row> static INLINE void diverge(const Job &, const Row &, const Row &, float, float *) {}
    static INLINE bool are_bad(const float *) { return false; }

    // With t the k-th largest entry of p, the regret of choosing the classes S is
    // Σ_{j∉S} (p_j − t)⁺ + Σ_{j∈S} (t − p_j)⁺: both parts of each class.
    static INLINE void add_column(const float *values, float p, float w, float *columns) {
        columns[0] = fmaf(w, larger(values[THRESHOLD] - p, 0), columns[0]);
        columns[1] = fmaf(w, larger(p - values[THRESHOLD], 0), columns[1]);
    }

    // The regret of the best choice: the classes that gain most. Of those that gain as much as the last
    // of them, some are not chosen, and then cost that gain besides.
    template <class Row>
    static INLINE void finish(const Job &, unsigned doubtful, const float *, const Row *columns, float *results) {
        Best best;
        columns[1].each_with(columns[0], [&](float above, float below, int, int) { best.insert(above - below); });
        best.template combine<Row::LANES>();
        const float last = best.at[COUNT - 1];
        const float n_as_large =
            columns[1].sum_with(columns[0], [&](float above, float below, int) { return above - below >= last ? 1.f : 0.f; });
        const float regret =
            columns[1].sum_with(columns[0], [&](float above, float below, int) { return above - below >= last ? below : above; });
        if (doubtful) results[2] = at_least_zero(regret + (n_as_large - COUNT) * last);
    }
};

// -- cumulative: H = Σ F·(S − F) with the cumulative sums F; D = Σ (F(p) − F(q))² -------------------

struct Cumulative : Smooth<Cumulative> {
    // Call `use` with the sum of what `term` returns for the classes up to each but the last one, in double
    // precision; return that of all.
    template <class Row, class Term, class Use> static INLINE double scan(const Row &row, const Row &other, Term term, Use use) {
        double before = 0;  // of all pieces that all lanes had
        row.pieces(other, [&](const auto &own, const auto &others, int first, int, bool is_piece) {
            double sum = 0;
#pragma unroll
            for (int i = 0; i < Row::PIECE; i++) sum += is_piece ? term(own.at[i], others.at[i]) : 0;
            double below = before;
#pragma unroll
            for (int step = 1; step < Row::LANES; step *= 2) {  // of the lanes before, by pairs, fours, …
                const double neighbours = __shfl_xor_sync(ALL_LANES, sum, step);
                if (threadIdx.x & step) below += neighbours;
                sum += neighbours;
            }
            before += sum;
#pragma unroll
            for (int i = 0; i < Row::PIECE; i++) {
                if (!is_piece || first + i >= N_CLASSES - 1) continue;
                below += term(own.at[i], others.at[i]);
                use(below);
            }
        });
        return before;
    }

    template <class Row> static INLINE Entropy entropy(const Job &job, const Row &row) {
        double sums = 0, squares = 0;
        float least = 0;
        const auto number = [&](float p, float) {
            least = smaller(least, p);
            return double(p);
        };
        const double total = scan(row, row, number, [&](double below) {
            sums += below;
            squares = fma(below, below, squares);
        });
        sums = across_sum<Row::LANES>(sums), squares = across_sum<Row::LANES>(squares);
        const float value = float(total * sums - squares);
        return {at_least_zero(value), float(squares - sums), larger(value, 0.1f * N_CLASSES),
                distance(float(total - 1), across_min<Row::LANES>(least) < 0)};
    }

    template <class Row> static INLINE float divergence(const Job &, const Row &row, const Row &mean, float) {
        double sum = 0;
        scan(row, mean, [](float p, float q) { return double(p - q); }, [&](double below) { sum = fma(below, below, sum); });
        return float(across_sum<Row::LANES>(sum));
    }
};
