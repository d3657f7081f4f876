// Quadratic forms: H = ½·Σ p_i·p_j·distance_ij and D = ‖(p − q)·root‖².
//
// A row is multiplied with a matrix (K, K), which is read through the cache: its lanes pass their numbers on to
// each other, and each lane has the products of its own classes.
#pragma once

#include "structures.cuh"

struct Quadratic : Smooth<Quadratic> {
    static constexpr int SIZE = N_CLASSES * N_CLASSES;

    // The half distances, the root, and the largest distance.
    static INLINE const float *distances(const Job &job) { return job.singles; }
    static INLINE const float *root(const Job &job) { return job.singles + SIZE; }
    static INLINE float largest(const Job &job) { return job.singles[2 * SIZE]; }

    // No term is negative.
    template <class Row> static INLINE Entropy entropy(const Job &job, const Row &row) {
        const Shape shape = shape_of(row);
        const float h = product_sum(
            distances(job), row, row, [](float p, float) { return p; }, [](float p, float product) { return p * product; });
        // Classes that are small in the mean have its errors; those of long sums are larger.
        const float size = larger(h, 0.25f * largest(job)) * (1 + N_CLASSES / 128.f);
        return {h, -h, size, distance(shape.total - 1, shape.is_bad)};
    }

    template <class Row> static INLINE float divergence(const Job &job, const Row &row, const Row &mean, float) {
        return product_sum(
            root(job), row, mean, [](float p, float q) { return p - q; }, [](float, float product) { return product * product; });
    }

  private:
    // The sum of what `use` returns for each number of a row, and for that of its class in the product of `term`s,
    // of the numbers of both rows, with a matrix.
    template <class Row, class Term, class Use>
    static INLINE float product_sum(const float *matrix, const Row &row, const Row &other, Term term, Use use) {
        constexpr int PIECE = Row::PIECE, LANES = Row::LANES, STEPS = (Row::N_PIECES + LANES - 1) / LANES;
        constexpr int GROUP = STEPS < 16 / PIECE ? STEPS : 16 / PIECE;  // pieces of a lane whose products it has
        const int own_lane = threadIdx.x % LANES;
        Sum sum;
#pragma unroll 1
        for (int start = 0; start < STEPS; start += GROUP) {
            float products[GROUP][PIECE] = {};
            row.pieces(other, [&](const auto &own, const auto &others, int, int step, bool is_piece) {
                float terms[PIECE];
#pragma unroll
                for (int i = 0; i < PIECE; i++) terms[i] = is_piece ? term(own.at[i], others.at[i]) : 0.f;
#pragma unroll 1
                for (int source = 0; source < LANES && step * LANES + source < Row::N_PIECES; source++) {
#pragma unroll
                    for (int i = 0; i < PIECE; i++) {
                        const int k = (step * LANES + source) * PIECE + i;
                        const float x = from_lane<LANES>(terms[i], source);
                        const Piece<PIECE> *line = reinterpret_cast<const Piece<PIECE> *>(matrix + k * N_CLASSES);
#pragma unroll
                        for (int s = 0; s < GROUP; s++) {
                            const int place = (start + s) * LANES + own_lane;
                            const Piece<PIECE> numbers = line[place < Row::N_PIECES ? place : 0];
#pragma unroll
                            for (int j = 0; j < PIECE; j++) products[s][j] = fmaf(x, numbers.at[j], products[s][j]);
                        }
                    }
                }
            });
            row.pieces(row, [&](const auto &own, const auto &, int, int step, bool is_piece) {
#pragma unroll
                for (int s = 0; s < GROUP; s++) {
                    if (!is_piece || step != start + s) continue;
#pragma unroll
                    for (int j = 0; j < PIECE; j++) sum.at[j] += use(own.at[j], products[s][j]);
                }
            });
        }
        return across_sum<LANES>(sum.value());
    }

    // A number of another lane of the row.
    template <int LANES> static INLINE float from_lane(float x, int source) {
        return LANES == 1 ? x : __shfl_sync(ALL_LANES, x, threadIdx.x % 32 / LANES * LANES + source);
    }
};
