// Components of small instances.
#pragma once

#include "warp_tiles.cuh"

struct WarpComponents : WarpTiles {
    INLINE WarpComponents(const Job &job) : WarpTiles(job) {}

    INLINE void run(char *memory) {
        WarpTiles::run(memory, [&](const Element *tile, long long first) { return decompose(tile, first); });
    }

    // Decompose an instance with the other lanes that have members of it; how far one is from a prediction.
    INLINE Off decompose(const Element *tile, long long first) const {
        const int n = n_instances_from(first);
        const int own = lane / LANES < n ? lane / LANES : n - 1;
        const bool is_instance = lane / LANES < n;
        float averages[Rule::N_VALUES] = {};
        OwnRow mean;
        Off off = summarize<Rule>(tile + own * job.spacing, own, mean, averages);
        if (Rule::are_bad(averages)) off = ~0u;
        float results[3 * Rule::N_RULES], memo;
        const unsigned doubtful = Rule::totals(job, mean, averages, results, &memo);
        if (is_instance) write(results, first + own);
        const unsigned wanted = __ballot_sync(ALL_LANES, is_instance && doubtful != 0 && in_instance == 0);
        if (wanted != 0) {
            __syncwarp();
            constexpr int MORE = 4 * LANES < 32 ? 4 * LANES : 32, MOST = 8 * LANES < 32 ? 8 * LANES : 32;
            const int n_wanted = __popc(wanted);
            if (MOST > MORE && n_wanted * MOST <= 32) {
                look_again<MOST>(tile, first, wanted, mean, memo, doubtful);
            } else if (MORE > LANES && n_wanted * MORE <= 32) {
                look_again<MORE>(tile, first, wanted, mean, memo, doubtful);
            } else {
                look_again<LANES>(tile, first, wanted, mean, memo, doubtful);
            }
        }
        return off;
    }

    // Compute EU of the wanted instances, bits of their first lanes, as an average of divergences from the mean.
    // Each has so many lanes now.
    template <int MORE> INLINE void look_again(const Element *tile, long long first, unsigned wanted, OwnRow mean, float memo,
                                               unsigned doubtful) const {
        int source = lane - in_instance;  // the first lane of the instance that this lane works on
        bool is_wanted = wanted >> source & 1;
        if (MORE > LANES) {
            for (int i = 0; i < lane / MORE; i++) wanted &= wanted - 1;
            is_wanted = wanted != 0;
            source = is_wanted ? __ffs(wanted) - 1 : 0;
#pragma unroll
            for (int i = 0; i < SIZE; i++) mean.numbers[i] = __shfl_sync(ALL_LANES, mean.numbers[i], source + lane % CLASS_LANES);
            memo = __shfl_sync(ALL_LANES, memo, source);
            doubtful = __shfl_sync(ALL_LANES, doubtful, source);
        }
        const int n = n_instances_from(first), own = source / LANES < n ? source / LANES : n - 1;
        const Element *members = tile + own * job.spacing;
        float averages[Rule::N_VALUES] = {}, sums[SIZE][Rule::N_COLUMNS + 1] = {};
        if (CLASS_LANES > 1 || is_wanted) {
            each_member<MORE>(own, [&](int m, float w, bool) {
                OwnRow row;
                read(row, members, m);
                prepare(row);
                float values[Rule::N_VALUES] = {};
                if (Rule::N_COLUMNS > 0) {
                    Rule::summarize(job, row, values);
#pragma unroll
                    for (int i = 0; i < SIZE; i++) Rule::add_column(values, row.numbers[i], w, sums[i]);
                }
                Rule::diverge(job, row, mean, memo, values);
#pragma unroll
                for (int i = 0; i < Rule::N_VALUES; i++) averages[i] = fmaf(w, values[i], averages[i]);
            });
        }
#pragma unroll
        for (int i = 0; i < Rule::N_VALUES; i++) averages[i] = across_members<MORE>(averages[i]);
        OwnRow columns[Rule::N_COLUMNS + 1];
#pragma unroll
        for (int j = 0; j < Rule::N_COLUMNS; j++)
#pragma unroll
            for (int i = 0; i < SIZE; i++) columns[j].numbers[i] = across_members<MORE>(sums[i][j]);
        float results[3 * Rule::N_RULES] = {};
        Rule::finish(job, doubtful, averages, columns, results);
        if (!is_wanted) return;
#pragma unroll
        for (int i = 0; i < Rule::N_RULES; i++)
            if ((doubtful >> i & 1) && i % MORE == lane % MORE) put(results[3 * i + 2], i, 2, first + own);
    }

    INLINE void write(const float *results, long long instance) const {
#pragma unroll
        for (int i = 0; i < 3 * Rule::N_RULES; i++)
            if (i % LANES == in_instance) put(results[i], i / 3, i % 3, instance);
    }
    INLINE void put(float result, int rule, int component, long long instance) const {
        constexpr int SLOTS[] = {RULE_SLOTS};
        if (SLOTS[rule] >= 0) job.results[(3 * SLOTS[rule] + component) * job.n_instances + instance] = result;
    }
};
