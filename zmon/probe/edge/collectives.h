/* The hot part of zmon/probe/hooks/collectives.py and works.py: collectives, and waits for asynchronous ones. */

#ifndef ZMON_EDGE_COLLECTIVES_H
#define ZMON_EDGE_COLLECTIVES_H

#include "marks.h"

static PyObject *groups, *issued_calls; /* of collectives.py: (number, name) by id of a group; counted calls by name */
static PyObject *python_flights, *python_watch; /* of works.py: the flights that Python watches, and `watch` */
static PyObject *name_of_nbytes;

/* ---- collectives in flight ---------------------------------------------------------------------------------- */

#define MAX_FLIGHTS 64 /* more are left to Python */

typedef struct {
    PyObject *reference; /* a weak reference to what can be awaited, a work or its future; NULL: the entry is free */
    void *awaited;
    int64_t number, op, group, bytes, sequence, issued;
} Flight;

static Flight flights[MAX_FLIGHTS];
static int num_flights; /* entries that were ever used: all after them are free */
static int64_t last_flight;

static inline int is_alive(Flight *flight)
{
    return PyWeakref_GetObject(flight->reference) == (PyObject *)flight->awaited;
}

static void forget_flight(Flight *flight)
{
    Py_CLEAR(flight->reference);
    while (num_flights > 0 && flights[num_flights - 1].reference == NULL) num_flights--;
}

/* Return the flight of an object that can be awaited; NULL if there is none. */
static Flight *find_flight(PyObject *awaited)
{
    for (int index = 0; index < num_flights; index++) {
        Flight *flight = &flights[index];
        if (flight->reference == NULL || flight->awaited != awaited) continue;
        if (is_alive(flight)) return flight;
        forget_flight(flight); /* another object with the same address, which is gone */
    }
    return NULL;
}

static Flight *free_flight(void)
{
    for (int index = 0; index < MAX_FLIGHTS; index++) {
        if (flights[index].reference != NULL && !is_alive(&flights[index])) forget_flight(&flights[index]);
        if (flights[index].reference == NULL) {
            if (index >= num_flights) num_flights = index + 1;
            return &flights[index];
        }
    }
    return NULL;
}

/* Watch an object for a flight. Return 0 if the table is full, or the object has no weak references. */
static int add_flight(PyObject *awaited, const Flight *flight)
{
    PyObject *reference = PyWeakref_NewRef(awaited, NULL);
    Flight *entry = reference == NULL ? NULL : free_flight();
    PyErr_Clear();
    if (entry == NULL) {
        Py_XDECREF(reference);
        return 0;
    }
    *entry = *flight;
    entry->reference = reference;
    entry->awaited = awaited;
    return 1;
}

/* Take a flight out of the table, with all objects that can be awaited for it. */
static Flight take_flight(Flight *flight)
{
    Flight taken = *flight;
    for (int index = num_flights - 1; index >= 0; index--)
        if (index < num_flights && flights[index].reference != NULL && flights[index].number == taken.number)
            forget_flight(&flights[index]);
    return taken;
}

static void watch_work(Timeline *timeline, PyObject *work, int64_t op, int64_t group, int64_t bytes, int64_t issued)
{
    Flight flight = {NULL, NULL, ++last_flight, op, group, bytes, 0, issued};
    if (has_sequence(op, group)) flight.sequence = sequence_of(timeline, group);
    if (add_flight(work, &flight)) return;
    PyObject *answer = PyObject_CallFunction(python_watch, "OLLLL", work, (long long)op, (long long)group,
                                             (long long)bytes, (long long)issued);
    if (answer == NULL) PyErr_Clear();
    Py_XDECREF(answer);
}

/* ---- the call of a collective -------------------------------------------------------------------------------- */

/* Read the bytes of a tensor; return 0 if Python must do it, for example for a list of tensors. */
static int read_bytes(PyObject *tensor, int64_t *bytes)
{
    PyObject *value = PyObject_GetAttr(tensor, name_of_nbytes);
    *bytes = value == NULL ? -1 : PyLong_AsLongLong(value);
    Py_XDECREF(value);
    if (PyErr_Occurred()) PyErr_Clear();
    return *bytes >= 0;
}

/* Return number and name of a group as a borrowed tuple; NULL if Python has not numbered it yet. */
static PyObject *numbered_group(PyObject *group)
{
    PyObject *key = PyLong_FromVoidPtr(group == NULL ? Py_None : group);
    PyObject *numbered = key == NULL ? NULL : PyDict_GetItemWithError(groups, key);
    Py_XDECREF(key);
    PyErr_Clear();
    return numbered;
}

/* Add to the counted calls of a group. */
static void add_issued(PyObject *name, int64_t count)
{
    PyObject *before = PyDict_GetItemWithError(issued_calls, name);
    PyObject *after = PyLong_FromLongLong((before == NULL ? 0 : PyLong_AsLongLong(before)) + count);
    if (after != NULL) PyDict_SetItem(issued_calls, name, after);
    Py_XDECREF(after);
    PyErr_Clear();
}

static inline PyObject *parameter(PyObject **values, Py_ssize_t index) { return index < 0 ? NULL : values[index]; }

static PyObject *call_collective(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    Front *front = (Front *)self;
    PyObject *values[MAX_PARAMETERS], *numbered;
    int64_t sent = 0, received = 0;
    int is_watched;
    Timeline *timeline = hot_timeline(&is_watched);
    if (!is_watched) return call_original(self, arguments, number, keywords);
    if (timeline == NULL || !bind_arguments(front, arguments, PyVectorcall_NARGS(number), keywords, values))
        return call_behind(self, arguments, number, keywords);
    int64_t begin = read_clock(timeline);
    if ((front->sent >= 0 && !read_bytes(values[front->sent], &sent))
        || (front->received >= 0 && !read_bytes(values[front->received], &received))
        || (numbered = numbered_group(parameter(values, front->group))) == NULL)
        return call_behind(self, arguments, number, keywords);
    PyObject *asynchronous = parameter(values, front->is_async);
    int is_async = asynchronous == NULL ? 0 : PyObject_IsTrue(asynchronous);
    if (is_async < 0) {
        PyErr_Clear();
        return call_behind(self, arguments, number, keywords);
    }
    int64_t group = PyLong_AsLongLong(PyTuple_GetItem(numbered, 0));
    int entered = enter_op(timeline, front->op, group, sent, received, 1, 0);
    if (entered) add_issued(PyTuple_GetItem(numbered, 1), 1);
    spend(timeline, begin);
    if (!entered) return call_original(self, arguments, number, keywords);
    Py_INCREF(timeline);
    PyObject *work = call_original(self, arguments, number, keywords);
    Error error = put_aside();
    int64_t end = read_clock(timeline);
    leave_op(timeline, 0, 0, is_async);
    if (is_async && is_set(work)) watch_work(timeline, work, front->op, group, sent + received, begin);
    spend(timeline, end);
    Py_DECREF(timeline);
    restore(error);
    return work;
}

/* ---- waits --------------------------------------------------------------------------------------------------- */

static PyObject *call_wait(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    int is_watched;
    Timeline *timeline = hot_timeline(&is_watched);
    Flight *entry = PyVectorcall_NARGS(number) > 0 && num_flights > 0 ? find_flight(arguments[0]) : NULL;
    if (entry == NULL && is_watched && PyDict_Size(python_flights) > 0)
        return call_behind(self, arguments, number, keywords);
    if (entry == NULL) return call_original(self, arguments, number, keywords);
    Flight flight = take_flight(entry);
    if (timeline == NULL) return call_original(self, arguments, number, keywords);
    int64_t begin = read_clock(timeline);
    int entered = enter_op(timeline, flight.op, flight.group, flight.bytes, 0, 0, flight.sequence);
    spend(timeline, begin);
    if (!entered) return call_original(self, arguments, number, keywords);
    Py_INCREF(timeline);
    PyObject *answer = call_original(self, arguments, number, keywords);
    Error error = put_aside();
    begin = read_clock(timeline);
    leave_op(timeline, 1, flight.issued, 0);
    spend(timeline, begin);
    Py_DECREF(timeline);
    restore(error);
    if (answer == NULL) raise_in_frame((Front *)self);
    return answer;
}

/* A wait for the future of a work is a wait for its collective. */
static PyObject *call_get_future(PyObject *self, PyObject *const *arguments, size_t number, PyObject *keywords)
{
    Flight *flight = PyVectorcall_NARGS(number) > 0 && num_flights > 0 ? find_flight(arguments[0]) : NULL;
    if (flight == NULL) return call_behind(self, arguments, number, keywords);
    Flight copy = *flight; /* the call may change the table */
    PyObject *future = call_original(self, arguments, number, keywords);
    if (future != NULL) add_flight(future, &copy);
    return future;
}

#endif
