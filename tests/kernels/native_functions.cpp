// The functions of functions.hpp and powers.hpp on arrays, for test_functions.py: once for each instruction set.
#include "powers.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {
namespace {

// Arrays have a whole number of vectors.
template <class T, class Function> void map(Function function, const T *x, T *result, ptrdiff_t size) {
    for (ptrdiff_t i = 0; i < size; i += LANES<T>) store(result + i, function(load<T>(x + i)));
}

template <class T, class Function>
void map_pairs(Function function, const T *q, const T *p, T *result, ptrdiff_t size) {
    for (ptrdiff_t i = 0; i < size; i += LANES<T>) {
        const V<T> q_here = load<T>(q + i), p_here = load<T>(p + i);
        store(result + i, function(q_here, p_here, p_here - q_here));
    }
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) void
#define FUNCTION(name, T)                                          \
    EXPORT name##_##T(const T *x, T *result, ptrdiff_t size) {     \
        map<T>([](V<T> v) { return name<T>(v); }, x, result, size); \
    }
#define FUNCTIONS(T)                                                                                             \
    EXPORT log_##T(const T *x, T *result, ptrdiff_t size) {                                                      \
        map<T>([](V<T> v) { return log(v); }, x, result, size);                                                  \
    }                                                                                                            \
    EXPORT cheap_log_##T(const T *x, T *result, ptrdiff_t size) {                                                \
        map<T>([](V<T> v) { return cheap_log(v) * T(LOG_UNIT<T>); }, x, result, size);                           \
    }                                                                                                            \
    FUNCTION(exp, T)                                                                                             \
    FUNCTION(expm1, T)                                                                                           \
    FUNCTION(log1p, T)                                                                                           \
    EXPORT relative_entropy_##T(const T *q, const T *p, T *result, ptrdiff_t size) {                             \
        map_pairs<T>([](V<T> q, V<T> p, V<T> d) { return relative_entropy<T>(q, p, d); }, q, p, result, size);   \
    }                                                                                                            \
    EXPORT power_excess_##T(const T *q, const T *p, T *result, ptrdiff_t size, double rate) {                    \
        map_pairs<T>([=](V<T> q, V<T> p, V<T> d) { return power_excess<T>(q, p, d, T(rate)); }, q, p, result, size); \
    }                                                                                                            \
    EXPORT power_##T(const T *x, T *result, ptrdiff_t size, double rate) {                                       \
        with_power<T>(rate, [=](auto power) {                                                                    \
            map<T>([=](V<T> v) { return power(v).power; }, x, result, size);                                     \
        });                                                                                                      \
    }                                                                                                            \
    EXPORT power_less_one_##T(const T *x, T *result, ptrdiff_t size, double rate) {                              \
        with_power<T>(rate, [=](auto power) {                                                                    \
            map<T>([=](V<T> v) { return power(v).less_one; }, x, result, size);                                  \
        });                                                                                                      \
    }                                                                                                            \
    EXPORT bend_##T(const T *x, T *result, ptrdiff_t size, double rate) {                                        \
        Bend<T> bend;                                                                                            \
        bend.fit(rate);                                                                                          \
        map<T>([&](V<T> v) { Bits<T> is_beyond{}; return bend(v, is_beyond); }, x, result, size);                \
    }                                                                                                            \
    EXPORT power_of_total_##T(const T *x, T *result, ptrdiff_t size, double rate) {                              \
        PowerOfTotal<T> power;                                                                                   \
        power.fit(rate);                                                                                         \
        map<T>([&](V<T> v) { return power(v); }, x, result, size);                                               \
    }

FUNCTIONS(float)
FUNCTIONS(double)

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
