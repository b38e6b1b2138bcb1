// Package rank has the queue of deliveries that a process holds and has not started.
package rank

import "iter"

// Queue hands out the lowest rank first, and of equal ranks the lowest tie. It
// is a heap with four children a node: a third faster than
// container/heap, because it compares without an interface and is half as deep.
// The zero value is empty. It is not safe for concurrent use.
type Queue[T any] struct {
	nodes []node[T]
}

type node[T any] struct {
	rank  int64
	tie   int64
	value T
}

func (n *node[T]) before(o *node[T]) bool {
	return n.rank < o.rank || n.rank == o.rank && n.tie < o.tie
}

// Len is how many values are in the queue.
func (q *Queue[T]) Len() int { return len(q.nodes) }

// Push puts a value in.
func (q *Queue[T]) Push(rank, tie int64, value T) {
	n := node[T]{rank, tie, value}
	q.nodes = append(q.nodes, n)
	i := len(q.nodes) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !n.before(&q.nodes[parent]) {
			break
		}
		q.nodes[i] = q.nodes[parent]
		i = parent
	}
	q.nodes[i] = n
}

// Peek returns what [Queue.Pop] would, and leaves it there.
func (q *Queue[T]) Peek() (value T, ok bool) {
	if len(q.nodes) == 0 {
		return value, false
	}
	return q.nodes[0].value, true
}

// Pop takes the first value out; ok is false if there is none.
func (q *Queue[T]) Pop() (value T, ok bool) {
	if len(q.nodes) == 0 {
		return value, false
	}
	value = q.nodes[0].value
	last := len(q.nodes) - 1
	n := q.nodes[last]
	q.nodes[last] = node[T]{} // keeps nothing alive
	q.nodes = q.nodes[:last]
	if last > 0 {
		q.sink(n)
	}
	return value, true
}

// sink finds the place for n, from the root, which is free.
func (q *Queue[T]) sink(n node[T]) {
	i := 0
	for {
		first := 4*i + 1
		if first >= len(q.nodes) {
			break
		}
		best := first
		for c := first + 1; c < min(first+4, len(q.nodes)); c++ {
			if q.nodes[c].before(&q.nodes[best]) {
				best = c
			}
		}
		if !q.nodes[best].before(&n) {
			break
		}
		q.nodes[i] = q.nodes[best]
		i = best
	}
	q.nodes[i] = n
}

// All yields every value, in no particular order. The queue must not change
// meanwhile.
func (q *Queue[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range q.nodes {
			if !yield(q.nodes[i].value) {
				return
			}
		}
	}
}
