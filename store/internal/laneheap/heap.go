// Package laneheap is a heap of lanes that know their place in it, so that any of them
// can be removed. It is not safe for concurrent use.
package laneheap

import "container/heap"

// Lane is an item of a heap. It keeps the place that it is told.
type Lane interface{ SetPlace(i int) }

// Heap has the least of its lanes first.
type Heap[L Lane] struct {
	Less  func(a, b L) bool // must be set before the first Push
	Lanes []L               // is for reading only
}

// Push puts a lane in.
func (h *Heap[L]) Push(l L) { heap.Push(items[L]{h}, l) }

// Pop takes the least lane out.
func (h *Heap[L]) Pop() L { return heap.Pop(items[L]{h}).(L) }

// Remove takes the lane at a place out.
func (h *Heap[L]) Remove(i int) { heap.Remove(items[L]{h}, i) }

// items are a heap as package heap wants it.
type items[L Lane] struct{ h *Heap[L] }

func (o items[L]) Len() int           { return len(o.h.Lanes) }
func (o items[L]) Less(i, j int) bool { return o.h.Less(o.h.Lanes[i], o.h.Lanes[j]) }
func (o items[L]) Swap(i, j int) {
	lanes := o.h.Lanes
	lanes[i], lanes[j] = lanes[j], lanes[i]
	lanes[i].SetPlace(i)
	lanes[j].SetPlace(j)
}

func (o items[L]) Push(l any) {
	l.(L).SetPlace(len(o.h.Lanes))
	o.h.Lanes = append(o.h.Lanes, l.(L))
}

func (o items[L]) Pop() any {
	last := len(o.h.Lanes) - 1
	l := o.h.Lanes[last]
	o.h.Lanes[last] = *new(L)
	o.h.Lanes = o.h.Lanes[:last]
	return l
}
