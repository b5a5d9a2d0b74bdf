/* The extension trailgate._loops: kernels that were compiled ahead, by tools/build_loops.py.

   find(NAME, LEVEL=the best) returns (FINGERPRINT, LOOP) or None. LOOP checks the types of all arguments, then runs without the GIL.
   It raises TypeError for arguments that the kernel does not take; checked_kernel.py converts what can be converted, and words the errors.
   A tuple among the arguments is a group of arrays and numbers: its items are arguments like the others.
   levels are the names of the instruction sets of this build, level the best one of them that this processor has.

   A kernel is int code(int64_t *frame). The frame has two slots for each array (address, length), one for each number, then one for
   each result. Only the limited API of Python 3.11 is used: one file serves 3.11 and all later versions. */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { ARGUMENTS = 64, RESULTS = 8 };

typedef int code(int64_t *frame);

typedef struct {
    char kind;      /* R: an array that is read, W: one that is written; i, f, b: int, float, bool */
    char format;    /* of an array, as the buffer protocol names it */
    char item_size; /* of an array: bytes */
} argument;

typedef struct {
    const char *name, *fingerprint; /* the fingerprint is "" in a wheel */
    int arguments;
    argument argument[ARGUMENTS];
    const char *results; /* ? bool, d double, q int64, Q uint64 */
    int is_tuple;
    code *code[2]; /* of each level */
} kernel;

#include "table.h" /* kernels[], COUNT, LEVELS, level_names[] */

/* pow has a newer symbol version than the C library of manylinux_2_17 has. The oldest version exists everywhere: loops call
   __wrap_pow (the linker's --wrap=pow), and that calls the oldest one. */
#if defined(__x86_64__)
__asm__(".symver oldest_pow,pow@GLIBC_2.2.5");
#else
__asm__(".symver oldest_pow,pow@GLIBC_2.17");
#endif
extern double oldest_pow(double base, double exponent);
double __wrap_pow(double base, double exponent) { return oldest_pow(base, exponent); }

/* On 64-bit Linux, long and long long are both int64, and numpy has arrays of either. */
static char normal(const char *format) {
    if (!format) return 'B';
    if (format[0] && format[1]) return 0;
    return format[0] == 'q' ? 'l' : format[0] == 'Q' ? 'L' : format[0];
}

static PyTypeObject *ndarray; /* numpy's: bytes and memoryviews have buffers too, and numba's loops do not take them */

static PyObject *refuse(int at, const char *expected) {
    PyErr_Clear();
    return PyErr_Format(PyExc_TypeError, "argument %d: expected %s", at, expected);
}

static PyObject *number(char kind, int64_t word) {
    double value;
    switch (kind) {
    case '?': return PyBool_FromLong(word != 0);
    case 'Q': return PyLong_FromUnsignedLongLong((uint64_t)word);
    case 'd': memcpy(&value, &word, sizeof value); return PyFloat_FromDouble(value);
    default: return PyLong_FromLongLong(word);
    }
}

static PyObject *results(const kernel *k, const int64_t *words) {
    if (!*k->results) Py_RETURN_NONE;
    if (!k->is_tuple) return number(*k->results, *words);
    Py_ssize_t count = (Py_ssize_t)strlen(k->results);
    PyObject *all = PyTuple_New(count);
    for (Py_ssize_t at = 0; all && at < count; at++) {
        PyObject *one = number(k->results[at], words[at]);
        if (!one || PyTuple_SetItem(all, at, one) < 0) Py_CLEAR(all);
    }
    return all;
}

/* Write the arguments to flat, with the items of each tuple in its place, and return their number: at most ARGUMENTS + 1. */
static int flatten(PyObject *const *given, Py_ssize_t count, PyObject **flat) {
    int filled = 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        Py_ssize_t items = PyTuple_Check(given[at]) ? PyTuple_Size(given[at]) : -1;
        if (filled + (items < 0 ? 1 : items) > ARGUMENTS) return ARGUMENTS + 1; /* too many for any kernel */
        if (items < 0) flat[filled++] = given[at];
        for (Py_ssize_t item = 0; item < items; item++) flat[filled++] = PyTuple_GetItem(given[at], item);
    }
    return filled;
}

static PyObject *call(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    const kernel *k = PyCapsule_GetPointer(self, NULL);
    if (!k) return NULL;
    PyObject *flat[ARGUMENTS];
    if (flatten(given, count, flat) != k->arguments) return PyErr_Format(PyExc_TypeError, "%s takes %d arguments", k->name, k->arguments);
    code *run = PyCapsule_GetContext(self);
    Py_buffer views[ARGUMENTS];
    int64_t frame[2 * ARGUMENTS + RESULTS], *slot = frame;
    int held = 0, failed = 0;
    PyObject *found = NULL;
    for (int at = 0; at < k->arguments; at++) {
        const argument *a = &k->argument[at];
        PyObject *value = flat[at];
        double real;
        switch (a->kind) {
        case 'R':
        case 'W': {
            Py_buffer *view = &views[held];
            /* PyBUF_ND asks for an array without gaps. */
            if (!PyObject_TypeCheck(value, ndarray)
                || PyObject_GetBuffer(value, view, PyBUF_ND | PyBUF_FORMAT | (a->kind == 'W' ? PyBUF_WRITABLE : 0)) < 0) {
                refuse(at, "another array");
                goto end;
            }
            held++;
            if (view->ndim != 1 || view->itemsize != a->item_size || normal(view->format) != a->format
                || (uintptr_t)view->buf % (uintptr_t)a->item_size) {
                refuse(at, "another array");
                goto end;
            }
            *slot++ = (int64_t)(intptr_t)view->buf;
            *slot++ = view->shape[0];
            break;
        }
        case 'f':
            if (!PyFloat_CheckExact(value)) { refuse(at, "float"); goto end; }
            real = PyFloat_AsDouble(value);
            memcpy(slot++, &real, sizeof real);
            break;
        case 'b':
            if (!PyBool_Check(value)) { refuse(at, "bool"); goto end; }
            *slot++ = value == Py_True;
            break;
        default:
            if (!PyLong_CheckExact(value)) { refuse(at, "int"); goto end; }
            *slot = PyLong_AsLongLong(value);
            if (*slot++ == -1 && PyErr_Occurred()) goto end; /* OverflowError */
        }
    }
    Py_BEGIN_ALLOW_THREADS
    failed = run(frame);
    Py_END_ALLOW_THREADS
    if (failed) PyErr_Format(PyExc_RuntimeError, "%s failed", k->name);
    else found = results(k, slot);
end:
    while (held) PyBuffer_Release(&views[--held]);
    return found;
}

static PyMethodDef loop = {"loop", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL};

static int best_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return LEVELS > 1 && __builtin_cpu_supports("x86-64-v3");
#else
    return 0;
#endif
}

static PyObject *find(PyObject *module, PyObject *arguments) {
    const char *name, *level = NULL;
    if (!PyArg_ParseTuple(arguments, "s|z", &name, &level)) return NULL;
    int chosen = best_level();
    for (int at = 0; level && at < LEVELS; at++)
        if (!strcmp(level_names[at], level)) chosen = at;
    for (int at = 0; at < COUNT; at++) {
        if (strcmp(kernels[at].name, name)) continue;
        PyObject *capsule = PyCapsule_New((void *)&kernels[at], NULL, NULL);
        if (!capsule) return NULL;
        PyCapsule_SetContext(capsule, (void *)kernels[at].code[chosen]);
        PyObject *function = PyCFunction_NewEx(&loop, capsule, NULL);
        Py_DECREF(capsule);
        return function ? Py_BuildValue("(sN)", kernels[at].fingerprint, function) : NULL;
    }
    Py_RETURN_NONE;
}

static int fill(PyObject *module) {
    PyObject *numpy = PyImport_ImportModule("numpy");
    ndarray = numpy ? (PyTypeObject *)PyObject_GetAttrString(numpy, "ndarray") : NULL;
    Py_XDECREF(numpy);
    if (!ndarray) return -1;
    PyObject *names = PyTuple_New(LEVELS), *all = PyTuple_New(COUNT);
    for (int at = 0; names && at < LEVELS; at++) PyTuple_SetItem(names, at, PyUnicode_FromString(level_names[at]));
    for (int at = 0; all && at < COUNT; at++) PyTuple_SetItem(all, at, PyUnicode_FromString(kernels[at].name));
    int failed = !names || !all || PyObject_SetAttrString(module, "levels", names) < 0 || PyObject_SetAttrString(module, "names", all) < 0
        || PyModule_AddStringConstant(module, "level", level_names[best_level()]) < 0;
    Py_XDECREF(names);
    Py_XDECREF(all);
    return failed ? -1 : 0;
}

static PyMethodDef methods[] = {{"find", find, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_loops", NULL, 0, methods, slots, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__loops(void) { return PyModuleDef_Init(&definition); }
