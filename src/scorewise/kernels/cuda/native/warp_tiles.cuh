// Small instances: a lane has some classes of some members of an instance in registers.
//
// A warp works alone, on the instances of a tile. Each has `INSTANCE_LANES` lanes, of which `CLASS_LANES` neighbours
// share a row. While a warp computes, its next tile is on the way to shared memory.
#pragma once

#include "rows.cuh"
#include "tile.cuh"

using OwnRow = RegisterRow<CLASS_LANES, READ>;

struct WarpTiles {
    static constexpr int LANES = INSTANCE_LANES, INSTANCES = 32 / LANES, SIZE = sizeof(OwnRow::numbers) / sizeof(float);

    const Job &job;
    const int lane, in_instance;  // of the lanes of an instance
    float *weights = nullptr;     // of the instances of the tile, if each has its own

    INLINE WarpTiles(const Job &job) : job(job), lane(threadIdx.x % 32), in_instance(lane % LANES) {}

    // Call `work` with each tile and its first instance; it returns how far a member is from a prediction.
    template <class Work> INLINE void run(char *memory, Work work) {
        const int warp = threadIdx.x / 32, n_warps = blockDim.x / 32, n_weights = INSTANCES * job.n_members;
        Element *tile = reinterpret_cast<Element *>(memory) + 2 * warp * job.tile, *next_tile = tile + job.tile;
        float *next_weights = reinterpret_cast<float *>(memory + 2 * n_warps * job.tile * sizeof(Element)) + 2 * warp * n_weights;
        weights = next_weights + n_weights;
        const long long step = (long long)(gridDim.x) * n_warps * INSTANCES;
        long long first = (blockIdx.x * (long long)(n_warps) + warp) * INSTANCES;
        Off off = 0;
        if (first < job.n_instances) copy_tile(tile, weights, first);
        end_copies();
        for (; first < job.n_instances; first += step) {
            if (first + step < job.n_instances) copy_tile(next_tile, next_weights, first + step);
            end_copies();
            wait_for_copies<1>();
            __syncwarp();
            off = further(off, work(tile, first));
            __syncwarp();
            Element *done = tile;
            tile = next_tile, next_tile = done;
            float *weighed = weights;
            weights = next_weights, next_weights = weighed;
        }
        if (off > distance(job.tolerance) && job.tolerance >= 0) *job.invalid = 1;
    }

    INLINE int n_instances_from(long long first) const {
        return job.n_instances - first < INSTANCES ? int(job.n_instances - first) : INSTANCES;
    }

    // Whether the members of a tile follow each other, both in global and in shared memory.
    INLINE bool is_run() const { return ORDER == BY_INSTANCE && job.spacing == job.n_members * N_CLASSES; }

    // Where they do not, call `use` with pieces of the members of n instances: how many numbers, where they are in the tile, and where
    // in global memory, from the first instance on.
    template <class Use> INLINE void each_piece(int n, const Strides &strides, Use use) const {
        if (ORDER == BY_INSTANCE) {
            const int gap = job.spacing - job.n_members * N_CLASSES;
#pragma unroll 4
            for (int i = lane; i < n * int(job.pieces.divisor); i += 32)
                use(Count<COPY>(), int(job.pieces.quotient(i)) * gap + i * COPY, i * COPY);
        } else if (ORDER == BY_MEMBER && n == INSTANCES) {
            constexpr int PIECES = INSTANCES * N_CLASSES / COPY;
#pragma unroll 4
            for (int i = lane; i < job.n_members * PIECES; i += 32)
                use(Count<COPY>(), i * COPY, i / PIECES * strides.member + i % PIECES * COPY);
        } else {
            constexpr int SINGLES = ORDER == BY_MEMBER ? 1 : COPY, PIECES = N_CLASSES / SINGLES;
#pragma unroll 4
            for (int i = lane; i < INSTANCES * job.n_members * PIECES; i += 32) {
                const int r = i / PIECES, k = i % PIECES * SINGLES, q = int(job.rows.quotient(r));
                const int b = job.is_by_instance ? q : r % INSTANCES, m = job.is_by_instance ? r - q * job.n_members : r / INSTANCES;
                if (b >= n) continue;
                use(Count<SINGLES>(), b * job.spacing + m * job.row_spacing + k,
                    b * strides.instance + m * strides.member + k * strides.of_class);
            }
        }
    }
    // Start copying the members of a tile.
    INLINE void copy_tile(Element *tile, float *tile_weights, long long first) const {
        const Element *from = static_cast<const Element *>(job.members) + first * job.strides.instance;
        const int n = n_instances_from(first);
        if (is_run()) {
            copy_run(tile, from, n * job.spacing, lane);
        } else {
            each_piece(n, job.strides, [&](auto count, int place, long long offset) {
                copy<decltype(count)::VALUE>(tile + place, from + offset);
            });
        }
        if (WEIGHTS == APART_WEIGHTS) {
            const int n_weights = n_instances_from(first) * job.n_members;
            for (int i = lane; i < n_weights; i += 32)
                copy_in_background<sizeof(float)>(tile_weights + i, job.weights + first * job.n_members + i);
        }
    }

    INLINE float weight(int own, int m) const {  // of an instance of the tile
        return WEIGHTS == NO_WEIGHTS ? job.share : WEIGHTS == SHARED_WEIGHTS ? job.weights[m] : weights[own * job.n_members + m];
    }
    INLINE void read(OwnRow &row, const Element *members, int m) const {
        const Some<READ, Element> *pieces = reinterpret_cast<const Some<READ, Element> *>(members + m * job.row_spacing);
        OwnRow::each_step([&](int step, int place) {
            const Some<READ, Element> here = pieces[place];
#pragma unroll
            for (int i = 0; i < READ; i++) row.numbers[step * READ + i] = float(here.at[i]);
        });
    }

    // Call `use` with the members that this lane has if an instance has so many lanes, their weights, and whether
    // they are its own; all, or all but the first. Lanes that share rows call it together, some with a member of
    // others at the end.
    template <int N, bool BUT_FIRST = false, class Use> INLINE void each_member(int own, Use use) const {
        constexpr int STEP = N / CLASS_LANES, SKIPPED = BUT_FIRST ? STEP : 0;
        const int first = lane % N / CLASS_LANES;
        if (CLASS_LANES == 1) {
#pragma unroll (SIZE <= 4 && N == LANES ? 2 : 1)
            for (int m = first + SKIPPED; m < job.n_members; m += STEP) use(m, weight(own, m), true);
        } else {
#pragma unroll 1
            for (int start = SKIPPED; start < job.n_members; start += STEP) {
                const bool is_own = start + first < job.n_members;
                const int m = is_own ? start + first : 0;
                use(m, is_own ? weight(own, m) : 0.f, is_own);
            }
        }
    }

    // θ̄ = a + Σ w·(θ − a), with a the first member that has weight; each lane has an anchor of its own first.
    template <class Rule> INLINE Off summarize(const Element *members, int own, OwnRow &mean, float *averages) const {
        Off off = 0;
        float shift[SIZE] = {}, own_weight = 0;
        OwnRow start;
        auto see = [&](OwnRow &row, float w) {
            float values[Rule::N_VALUES];
            off = further(off, summarize_prepared<Rule>(job, row, values));
            own_weight += w;
#pragma unroll
            for (int i = 0; i < Rule::N_VALUES; i++) averages[i] = fmaf(w, values[i], averages[i]);
#pragma unroll
            for (int i = 0; i < SIZE; i++) shift[i] = fmaf(w, row.numbers[i] - start.numbers[i], shift[i]);
        };
        const int first = in_instance / CLASS_LANES;
        if (WEIGHTS == NO_WEIGHTS) {
            const bool is_member = first < job.n_members;
            read(start, members, is_member ? first : 0);
            see(start, is_member ? job.share : 0.f);
        } else {
            read(start, members, first_with_weight(own));
            prepare(start);
        }
        each_member<LANES, WEIGHTS == NO_WEIGHTS>(own, [&](int m, float w, bool) {
            OwnRow row;
            read(row, members, m);
            see(row, w);
        });
        int source = lane - in_instance + lane % CLASS_LANES;  // the lane whose anchor is that of all
        if (LANES > CLASS_LANES && WEIGHTS) {
            const unsigned have = __ballot_sync(ALL_LANES, own_weight > 0) >> (lane - in_instance) & ((1ull << LANES) - 1);
            if (have != 0) source += (__ffs(have) - 1) / CLASS_LANES * CLASS_LANES;
        }
#pragma unroll
        for (int i = 0; i < SIZE; i++) {
            mean.numbers[i] = start.numbers[i];
            if (LANES > CLASS_LANES) {
                mean.numbers[i] = __shfl_sync(ALL_LANES, start.numbers[i], source);
                shift[i] = across_members<LANES>(fmaf(own_weight, start.numbers[i] - mean.numbers[i], shift[i]));
            }
            mean.numbers[i] += shift[i];
        }
#pragma unroll
        for (int i = 0; i < Rule::N_VALUES; i++) averages[i] = across_members<LANES>(averages[i]);
        return off;
    }
    INLINE int first_with_weight(int own) const {
        int m = in_instance / CLASS_LANES;
        if (WEIGHTS) {
            while (m < job.n_members && !(weight(own, m) > 0)) m += LANES / CLASS_LANES;
        }
        return m < job.n_members ? m : 0;
    }
    // The sum over the lanes of an instance, if it has so many, that have the same classes.
    template <int N> static INLINE float across_members(float x) {
#pragma unroll
        for (int step = CLASS_LANES; step < N; step *= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
        return x;
    }
};
