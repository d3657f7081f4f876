// The Python module: which instruction sets this processor has, and which one is in use.
// Only the limited API of Python 3.11, so that one file serves all later versions.
#include <Python.h>

#include <cstdlib>
#include <cstring>

#include "dispatch.hpp"

namespace scorewise {
namespace {

// The instruction sets that this processor can run, slowest first.
struct Available {
    const Kernels* sets[3] = {};
    int count = 0;

    Available() {
#ifdef __x86_64__
        __builtin_cpu_init();
#endif
#ifdef SCOREWISE_HAS_baseline
        add(baseline::kernels);
#endif
#ifdef SCOREWISE_HAS_avx2
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) add(avx2::kernels);
#endif
#ifdef SCOREWISE_HAS_avx512
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("fma")) {
            add(avx512::kernels);
        }
#endif
#ifdef SCOREWISE_HAS_neon
        add(neon::kernels);
#endif
    }

    void add(const Kernels& kernels) { sets[count++] = &kernels; }
};

Available available;
const Kernels* chosen = nullptr;

PyObject* instruction_sets(PyObject*, PyObject* const*, Py_ssize_t) {
    PyObject* names = PyTuple_New(available.count);
    if (names == nullptr) return nullptr;
    for (int i = 0; i < available.count; ++i) {
        PyObject* name = PyUnicode_FromString(available.sets[i]->name);
        if (name == nullptr || PyTuple_SetItem(names, i, name) < 0) {
            Py_DECREF(names);
            return nullptr;
        }
    }
    return names;
}

PyObject* instruction_set(PyObject*, PyObject* const*, Py_ssize_t) {
    return PyUnicode_FromString(chosen->name);
}

// A view of an array's memory, which stays valid as long as this lives.
class View {
  public:
    View() = default;
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    ~View() {
        if (is_open_) PyBuffer_Release(&buffer_);
    }

    // Whether the array has so many axes and native numbers of this type; if not, sets an error.
    bool open(PyObject* array, int ndim, const char* format, bool writable) {
        const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(array, &buffer_, flags) < 0) return false;
        is_open_ = true;
        if (buffer_.ndim == ndim && std::strcmp(type(), format) == 0) return true;
        PyErr_Format(PyExc_TypeError, "an array of %d axes and format '%s' is needed, not %d and '%s'",
                     ndim, format, buffer_.ndim, buffer_.format);
        return false;
    }
    // The format of an array of single or double precision; null, with an error, for others.
    static const char* format_of(PyObject* array) {
        View view;
        if (PyObject_GetBuffer(array, &view.buffer_, PyBUF_STRIDES | PyBUF_FORMAT) < 0) return nullptr;
        view.is_open_ = true;
        if (std::strcmp(view.type(), "f") == 0) return "f";
        if (std::strcmp(view.type(), "d") == 0) return "d";
        PyErr_Format(PyExc_TypeError, "numbers of format '%s' cannot be read", view.buffer_.format);
        return nullptr;
    }

    char* data() const { return static_cast<char*>(buffer_.buf); }
    ptrdiff_t size(int axis) const { return buffer_.shape[axis]; }
    ptrdiff_t stride(int axis) const { return buffer_.strides[axis]; }

  private:
    // The format without a mark of native byte order, which not all arrays leave out.
    const char* type() const {
        const char native = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
        const char mark = *buffer_.format;
        return buffer_.format + (mark == '=' || mark == '@' || mark == native);
    }

    Py_buffer buffer_;
    bool is_open_ = false;
};

// Whether a number is a count from 1 to `most`.
bool is_count(double number, ptrdiff_t most) {
    return number >= 1 && number <= static_cast<double>(most) && number == static_cast<double>(static_cast<ptrdiff_t>(number));
}

// Whether a rule of so many classes has the parameter and as many numbers as its structure needs: the kernels read
// them without looking.
bool has_numbers(const Rule& rule, ptrdiff_t n_classes) {
    const ptrdiff_t size = rule.size, square = n_classes * n_classes;
    switch (rule.structure) {
        case Structure::SEPARABLE: return size == 0 || size == n_classes + 1;
        case Structure::COSTS: return is_count(rule.parameter, size) && size == n_classes * (ptrdiff_t(rule.parameter) + 1);
        case Structure::LARGEST: return size == 0 && is_count(rule.parameter, n_classes);
        case Structure::QUADRATIC: return n_classes > 0 && size >= square && (size - square) % n_classes == 0;
        case Structure::TWO_CLASS: {
            if (n_classes != 2 || size < TWO_CLASS_HEADER) return false;
            ptrdiff_t expected = TWO_CLASS_HEADER;  // then nodes with weights, and two polynomials of each class
            for (int i = 3; i < 7; ++i) {
                if (!is_count(rule.numbers[i], size)) return false;
                expected += (i % 2 == 0 ? 2 : 4) * ptrdiff_t(rule.numbers[i]);
            }
            return size == expected;
        }
        default: return size == 0;
    }
}

// Read a rule, the tuple (structure, parameter, numbers or None).
bool read_rule(PyObject* item, ptrdiff_t n_classes, Rule& rule, View& numbers) {
    if (!PyTuple_Check(item) || PyTuple_Size(item) != 3) {
        PyErr_SetString(PyExc_TypeError, "a rule is a tuple (structure, parameter, numbers)");
        return false;
    }
    const long structure = PyLong_AsLong(PyTuple_GetItem(item, 0));
    rule.parameter = PyFloat_AsDouble(PyTuple_GetItem(item, 1));
    rule.numbers = nullptr;
    rule.size = 0;
    if (PyErr_Occurred()) return false;
    if (structure < 0 || structure > static_cast<long>(Structure::TWO_CLASS)) {
        PyErr_Format(PyExc_ValueError, "there is no structure %ld", structure);
        return false;
    }
    rule.structure = static_cast<Structure>(structure);
    PyObject* array = PyTuple_GetItem(item, 2);
    if (array != Py_None) {
        if (!numbers.open(array, 1, "d", false)) return false;
        rule.numbers = reinterpret_cast<const double*>(numbers.data());
        rule.size = numbers.size(0);
        if (rule.size > 1 && numbers.stride(0) != sizeof(double)) {
            PyErr_SetString(PyExc_ValueError, "the numbers of a rule must be contiguous");
            return false;
        }
    }
    if (has_numbers(rule, n_classes)) return true;
    PyErr_Format(PyExc_ValueError, "a rule of structure %ld for %zd classes does not have %zd numbers, or not this parameter",
                 structure, static_cast<Py_ssize_t>(n_classes), static_cast<Py_ssize_t>(rule.size));
    return false;
}

// Read members (N, M, K) and their weights, or None; sets an error if they do not fit.
bool read_members(PyObject* array, PyObject* weight_array, const char* format, View& members, View& weights,
                  Job& job) {
    if (!members.open(array, 3, format, false)) return false;
    job.members = members.data();
    job.n_instances = members.size(0);
    job.n_members = members.size(1);
    job.n_classes = members.size(2);
    job.instance_stride = members.stride(0);
    job.member_stride = members.stride(1);
    job.class_stride = members.stride(2);
    if (weight_array == Py_None) return true;
    if (!weights.open(weight_array, 2, format, false)) return false;
    job.weights = weights.data();
    job.weight_instance_stride = weights.size(0) > 1 ? weights.stride(0) : 0;
    job.weight_member_stride = weights.stride(1);
    if (weights.size(1) == job.n_members && (weights.size(0) == 1 || weights.size(0) == job.n_instances))
        return true;
    PyErr_SetString(PyExc_ValueError, "the shapes of members and weights do not fit");
    return false;
}

constexpr int MOST_RULES = 64;

bool has_arguments(Py_ssize_t n_args, Py_ssize_t wanted) {
    if (n_args != wanted) PyErr_Format(PyExc_TypeError, "%zd arguments are needed, not %zd", wanted, n_args);
    return n_args == wanted;
}

// Read rules from a tuple of at most MOST_RULES; the job has its number of classes.
bool read_rules(PyObject* tuple, Job& job, Rule* rules, View* numbers) {
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) > MOST_RULES) {
        PyErr_Format(PyExc_TypeError, "rules are a tuple of at most %d", MOST_RULES);
        return false;
    }
    job.rules = rules;
    job.n_rules = static_cast<int>(PyTuple_Size(tuple));
    for (int i = 0; i < job.n_rules; ++i)
        if (!read_rule(PyTuple_GetItem(tuple, i), job.n_classes, rules[i], numbers[i])) return false;
    return true;
}

// Read the start and the stop of a job.
bool read_range(PyObject* start, PyObject* stop, Job& job) {
    job.start = PyLong_AsSsize_t(start);
    job.stop = PyLong_AsSsize_t(stop);
    if (PyErr_Occurred()) return false;
    if (job.start >= 0 && job.start <= job.stop && job.stop <= job.n_instances) return true;
    PyErr_SetString(PyExc_ValueError, "there are no such instances");
    return false;
}

PyObject* answer(Status status) {
    if (status == NO_MEMORY) return PyErr_NoMemory();
    return PyBool_FromLong(status == DONE);
}

// average(members, weights, mean, parts, kind, tolerance, start, stop); see _native.pyi.
PyObject* average(PyObject*, PyObject* const* args, Py_ssize_t n_args) {
    if (!has_arguments(n_args, 8)) return nullptr;
    const char* format = View::format_of(args[0]);
    View members, weights, mean, parts;
    AverageJob job = {};
    if (format == nullptr || !read_members(args[0], args[1], format, members, weights, job.members)) return nullptr;
    Job& own = job.members;
    bool fits = true;
    if (args[2] != Py_None) {
        if (!mean.open(args[2], 2, "d", true)) return nullptr;
        job.mean = mean.data();
        for (int i = 0; i < 2; ++i) job.mean_strides[i] = mean.stride(i);
        fits = mean.size(0) == own.n_instances && mean.size(1) == own.n_classes;
    }
    if (args[3] != Py_None) {
        if (!parts.open(args[3], 3, format, true)) return nullptr;
        job.parts = parts.data();
        for (int i = 0; i < 3; ++i) job.part_strides[i] = parts.stride(i);
        fits = fits && parts.size(0) == 3 && parts.size(1) == own.n_instances && parts.size(2) == own.n_classes;
    }
    own.kind = static_cast<int>(PyLong_AsLong(args[4]));
    own.tolerance = PyFloat_AsDouble(args[5]);
    if (!read_range(args[6], args[7], own)) return nullptr;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the shapes of members and results do not fit");
        return nullptr;
    }
    Status status;
    Py_BEGIN_ALLOW_THREADS;
    status = *format == 'f' ? chosen->average_float(job) : chosen->average_double(job);
    Py_END_ALLOW_THREADS;
    return answer(status);
}

// decompose(members, weights, predictor, results, rules, kind, tolerance, extras, start, stop);
// see _native.pyi.
PyObject* decompose(PyObject*, PyObject* const* args, Py_ssize_t n_args) {
    if (!has_arguments(n_args, 10)) return nullptr;
    const char* format = View::format_of(args[0]);
    View members, weights, predictor, results, numbers[MOST_RULES];
    Rule rules[MOST_RULES];
    Job job = {};
    if (format == nullptr || !read_members(args[0], args[1], format, members, weights, job)) return nullptr;
    if (!results.open(args[3], 2, format, true)) return nullptr;
    if (args[2] != Py_None) {
        if (!predictor.open(args[2], 2, format, false)) return nullptr;
        job.predictor = predictor.data();
        job.predictor_instance_stride = predictor.stride(0);
        job.predictor_class_stride = predictor.stride(1);
    }
    if (!read_rules(args[4], job, rules, numbers)) return nullptr;
    job.kind = static_cast<int>(PyLong_AsLong(args[5]));
    job.tolerance = PyFloat_AsDouble(args[6]);
    job.extras = static_cast<int>(PyLong_AsLong(args[7]));
    if (!read_range(args[8], args[9], job)) return nullptr;
    job.results = results.data();
    job.part_stride = results.stride(0);
    job.result_stride = results.stride(1);
    if (results.size(0) != n_parts(job) * job.n_rules || results.size(1) != job.n_instances ||
        (job.predictor != nullptr && (predictor.size(0) != job.n_instances || predictor.size(1) != job.n_classes))) {
        PyErr_SetString(PyExc_ValueError, "the shapes of members, predictor and results do not fit");
        return nullptr;
    }
    Status status;
    Py_BEGIN_ALLOW_THREADS;
    status = *format == 'f' ? chosen->decompose_float(job) : chosen->decompose_double(job);
    Py_END_ALLOW_THREADS;
    return answer(status);
}

// What an accumulator knows: the tuple (anchor, deviation, regrets, statistics, convex, has_zero_anchor) of
// flat arrays, the last two in float64 and bytes.
class OpenMemory {
  public:
    // Open the arrays, which must have the sizes that follow from the job. Sets room and n_regrets.
    bool read(PyObject* tuple, const char* format, const Job& job, State& state) {
        if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != N) {
            PyErr_SetString(PyExc_TypeError, "the memory of an accumulator is a tuple of six arrays");
            return false;
        }
        const char* formats[N] = {format, format, format, format, "d", "B"};
        for (int i = 0; i < N; ++i)
            if (!views_[i].open(PyTuple_GetItem(tuple, i), 1, formats[i], true)) return false;
        const ptrdiff_t row = row_length(job.n_classes, state.is_side_by_side), n_rules = job.n_rules;
        const ptrdiff_t room = views_[3].size(0) / (n_rules > 0 ? 2 * n_rules : 1), item = *format == 'f' ? 4 : 8;
        ptrdiff_t n_regrets = 0, n_convex = 0;
        for (int i = 0; i < n_rules; ++i) {
            n_regrets += regrets_of(job.rules[i], row);
            n_convex += has_convex(job.rules[i]);
        }
        const ptrdiff_t sizes[N] = {room * row, room * row, room * n_regrets, 2 * n_rules * room, n_convex * room, room};
        const ptrdiff_t strides[N] = {item, item, item, item, 8, 1};
        bool fits = room % LANE_BLOCK == 0 && (state.room == 0 || state.room == room);
        for (int i = 0; i < N; ++i) {
            fits &= views_[i].size(0) == sizes[i];
            fits &= sizes[i] <= 1 || views_[i].stride(0) == strides[i];
        }
        if (!fits) {
            PyErr_SetString(PyExc_ValueError, "the arrays of an accumulator do not fit");
            return false;
        }
        state.room = room;
        state.n_regrets = n_regrets;
        char* statistics = views_[3].data();
        memory = {views_[0].data(), views_[1].data(), views_[2].data(), statistics,
                  statistics + n_rules * LANE_BLOCK * item, reinterpret_cast<double*>(views_[4].data()),
                  reinterpret_cast<unsigned char*>(views_[5].data())};
        return true;
    }

    Memory memory = {};

  private:
    static constexpr int N = 6;
    View views_[N];
};

// check(members, kind, tolerance, start, stop); see _native.pyi.
PyObject* check(PyObject*, PyObject* const* args, Py_ssize_t n_args) {
    if (!has_arguments(n_args, 5)) return nullptr;
    const char* format = View::format_of(args[0]);
    View members, weights;
    Job job = {};
    if (format == nullptr || !read_members(args[0], Py_None, format, members, weights, job)) return nullptr;
    job.kind = static_cast<int>(PyLong_AsLong(args[1]));
    job.tolerance = PyFloat_AsDouble(args[2]);
    if (PyErr_Occurred() || !read_range(args[3], args[4], job)) return nullptr;
    Status status;
    Py_BEGIN_ALLOW_THREADS;
    status = *format == 'f' ? chosen->check_float(job) : chosen->check_double(job);
    Py_END_ALLOW_THREADS;
    return answer(status);
}

// accumulate(members, shares, memory, rules, kind, tolerance, is_side_by_side, offset, start, stop);
// see _native.pyi.
PyObject* accumulate(PyObject*, PyObject* const* args, Py_ssize_t n_args) {
    if (!has_arguments(n_args, 10)) return nullptr;
    const char* format = View::format_of(args[0]);
    View members, weights, shares, numbers[MOST_RULES];
    Rule rules[MOST_RULES];
    OpenMemory open;
    Job job = {};
    State state = {};
    if (format == nullptr || !read_members(args[0], Py_None, format, members, weights, job)) return nullptr;
    if (!shares.open(args[1], 3, format, false) || !read_rules(args[3], job, rules, numbers)) return nullptr;
    job.kind = static_cast<int>(PyLong_AsLong(args[4]));
    job.tolerance = PyFloat_AsDouble(args[5]);
    state.is_side_by_side = PyObject_IsTrue(args[6]) == 1;
    if (!open.read(args[2], format, job, state)) return nullptr;
    state.memory = open.memory;
    state.offset = PyLong_AsSsize_t(args[7]);
    if (!read_range(args[8], args[9], job)) return nullptr;
    const bool is_shared = shares.size(1) == 1;
    if (state.offset < 0 || state.offset + job.n_instances > state.room || shares.size(0) != 3 ||
        (!is_shared && shares.size(1) != job.n_instances) || shares.size(2) != job.n_members ||
        (!state.is_side_by_side && job.class_stride != (*format == 'f' ? 4 : 8))) {
        PyErr_SetString(PyExc_ValueError, "the shapes of members, shares and state do not fit");
        return nullptr;
    }
    state.shares = job.weights = shares.data();
    state.share_part_stride = shares.stride(0);
    state.share_stride = job.weight_instance_stride = is_shared ? 0 : shares.stride(1);
    state.share_member_stride = job.weight_member_stride = shares.stride(2);
    Status status;
    Py_BEGIN_ALLOW_THREADS;
    status = *format == 'f' ? chosen->accumulate_float(job, state) : chosen->accumulate_double(job, state);
    Py_END_ALLOW_THREADS;
    return answer(status);
}

// update_results(memory, totals, rules, n_classes, is_side_by_side, wanted, start, stop);
// see _native.pyi.
PyObject* update_results(PyObject*, PyObject* const* args, Py_ssize_t n_args) {
    if (!has_arguments(n_args, 8)) return nullptr;
    const char* format = View::format_of(args[1]);
    View totals, numbers[MOST_RULES];
    Rule rules[MOST_RULES];
    OpenMemory open;
    Job job = {};
    State state = {};
    if (format == nullptr || !totals.open(args[1], 2, format, true)) return nullptr;
    job.n_classes = PyLong_AsSsize_t(args[3]);
    if (PyErr_Occurred() || !read_rules(args[2], job, rules, numbers)) return nullptr;
    state.is_side_by_side = PyObject_IsTrue(args[4]) == 1;
    state.wanted = static_cast<int>(PyLong_AsLong(args[5]));
    if (PyErr_Occurred() || !open.read(args[0], format, job, state)) return nullptr;
    state.memory = open.memory;
    job.n_instances = state.room;
    if (!read_range(args[6], args[7], job)) return nullptr;
    if (job.start % LANE_BLOCK != 0 || job.stop % LANE_BLOCK != 0 || totals.size(0) != job.n_rules ||
        totals.size(1) != state.room || totals.stride(1) != (*format == 'f' ? 4 : 8)) {
        PyErr_SetString(PyExc_ValueError, "the shapes of totals and state do not fit");
        return nullptr;
    }
    job.members = state.memory.anchor;  // which are not read
    job.n_members = 1;
    job.results = totals.data();
    job.part_stride = totals.stride(0);
    Status status;
    Py_BEGIN_ALLOW_THREADS;
    status = *format == 'f' ? chosen->update_results_float(job, state) : chosen->update_results_double(job, state);
    Py_END_ALLOW_THREADS;
    return answer(status);
}

// What Python files repeat: tests compare them.
int add_constants(PyObject* module) {
    const struct {
        const char* name;
        long value;
    } constants[] = {
        {"LANE_BLOCK", LANE_BLOCK},
        {"MOST_RULES", MOST_RULES},
        {"PROBABILITIES", PROBABILITIES},
        {"LOGITS", LOGITS},
        {"MASSES", MASSES},
        {"LOG", long(Structure::LOG)},
        {"BRIER", long(Structure::BRIER)},
        {"ZERO_ONE", long(Structure::ZERO_ONE)},
        {"SPHERICAL", long(Structure::SPHERICAL)},
        {"SEPARABLE", long(Structure::SEPARABLE)},
        {"NORM", long(Structure::NORM)},
        {"COSTS", long(Structure::COSTS)},
        {"LARGEST", long(Structure::LARGEST)},
        {"QUADRATIC", long(Structure::QUADRATIC)},
        {"CUMULATIVE", long(Structure::CUMULATIVE)},
        {"TWO_CLASS", long(Structure::TWO_CLASS)},
        {"UNBIASED", UNBIASED},
        {"ERRORS", ERRORS},
        {"REVERSE", REVERSE},
        {"ACTIONS", ACTIONS},
        {"EPISTEMIC", EPISTEMIC},
        {"REGRETS", REGRETS},
        {"CONVEX", CONVEX},
    };
    for (const auto& constant : constants)
        if (PyModule_AddIntConstant(module, constant.name, constant.value) < 0) return -1;
    return 0;
}

// Chooses the fastest instruction set, or the one that the environment names.
int choose(PyObject*) {
    if (available.count == 0) {
        PyErr_SetString(PyExc_ImportError,
                        "this processor can run none of the instruction sets that scorewise was compiled for");
        return -1;
    }
    chosen = available.sets[available.count - 1];
    const char* wanted = std::getenv("SCOREWISE_INSTRUCTION_SET");
    if (wanted == nullptr || *wanted == '\0') return 0;
    for (int i = 0; i < available.count; ++i) {
        if (std::strcmp(available.sets[i]->name, wanted) == 0) {
            chosen = available.sets[i];
            return 0;
        }
    }
    PyObject* names = instruction_sets(nullptr, nullptr, 0);
    if (names != nullptr) {
        PyErr_Format(PyExc_ImportError,
                     "SCOREWISE_INSTRUCTION_SET is '%s'; this processor can run %S", wanted, names);
        Py_DECREF(names);
    }
    return -1;
}

// The limited API has METH_FASTCALL functions, but one type for pointers to functions.
template <class Function>
PyCFunction as_method(Function* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"instruction_sets", as_method(instruction_sets), METH_FASTCALL,
     "The instruction sets that this processor can run, slowest first."},
    {"instruction_set", as_method(instruction_set), METH_FASTCALL,
     "The instruction set in use."},
    {"decompose", as_method(decompose), METH_FASTCALL,
     "Decompose members of some instances into results; False if some are no predictions."},
    {"average", as_method(average), METH_FASTCALL,
     "Write the mean of members of some instances, or parts by class; False if some are no predictions."},
    {"check", as_method(check), METH_FASTCALL,
     "Whether members are predictions for each of some instances."},
    {"accumulate", as_method(accumulate), METH_FASTCALL,
     "Add members, which were checked, to an accumulator's state of some instances."},
    {"update_results", as_method(update_results), METH_FASTCALL,
     "Find the totals of some instances, and bring their EU up to date."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(choose)},
    {Py_mod_exec, reinterpret_cast<void*>(add_constants)},
    {0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The kernels, compiled.", 0, methods, slots,
    nullptr,               nullptr,   nullptr,
};

}  // namespace
}  // namespace scorewise

PyMODINIT_FUNC PyInit__native() { return PyModuleDef_Init(&scorewise::definition); }
