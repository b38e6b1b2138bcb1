package config

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// node is a value of the configuration, with what it is and where it came from.
type node struct {
	shape  *shape
	field  *field // that it is the value of; nil for items, and for what the user names
	path   string
	file   string // that it is from, if that is another one than the configuration's
	line   int    // 0: not from a file
	column int
	// key is where the key of the value is: what concerns all of the value is
	// reported there.
	keyLine, keyColumn int

	origin string
	value  any // of a scalar; nil: not stated, or not readable
	shown  string
	bad    bool // a problem with it was reported
	// missed are keys that were probably meant by others, which were reported: that
	// they are not there follows from that, and is not reported again. With open, it is
	// unknown which keys were meant.
	missed []string
	open   bool

	names []string         // of children, as they came
	under map[string]*node // of an object or a table
	items []*node          // of a list
}

// at returns the value of a key that the format has, or nil.
func (n *node) at(name string) *node {
	if n.shape.kind == object && n.shape.field(name) == nil {
		panic(fmt.Sprintf("config: %s has no key %q", n.path, name))
	}
	return n.under[name]
}

// lacks reports whether a key is not there, and nothing else that was reported says
// why.
func (n *node) lacks(name string) bool {
	return n.at(name) == nil && !n.open && !slices.Contains(n.missed, name)
}

// unsure reports whether a reported problem makes the value of a key unreliable, whether
// it is stated or not.
func (n *node) unsure(name string) bool {
	child := n.at(name)
	return child == nil && !n.lacks(name) || child != nil &&
		(child.bad || child.line == 0 && (n.open || slices.Contains(n.missed, name)))
}

// sound reports whether nothing was reported of n, nor of anything within it.
func (n *node) sound() bool {
	for child := range n.children() {
		if !child.sound() {
			return false
		}
	}
	return !n.bad && !n.open && len(n.missed) == 0
}

// children are the values within an object, a table or a list, in their order.
func (n *node) children() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for _, name := range n.names {
			if !yield(n.under[name]) {
				return
			}
		}
		for _, item := range n.items {
			if !yield(item) {
				return
			}
		}
	}
}

func (n *node) add(name string, child *node) {
	if n.under == nil {
		n.under = map[string]*node{}
	}
	if n.under[name] == nil {
		n.names = append(n.names, name)
	}
	n.under[name] = child
}

// get is the value of a key, or its zero value.
func get[T any](n *node, name string) T {
	v, _ := find[T](n, name)
	return v
}

// find is the value of a key, if there is one.
func find[T any](n *node, name string) (T, bool) {
	var none T
	if n == nil {
		return none, false
	}
	child := n.at(name)
	if child == nil {
		return none, false
	}
	v, ok := child.value.(T)
	return v, ok
}

// stated is the value of a key as a pointer, nil if there is none.
func stated[T any](n *node, name string) *T {
	if v, ok := find[T](n, name); ok {
		return &v
	}
	return nil
}

// inOrder are the values of a table by name, in the order of their names; n may be nil.
func (n *node) inOrder() iter.Seq2[string, *node] {
	return func(yield func(string, *node) bool) {
		if n == nil {
			return
		}
		for _, name := range slices.Sorted(slices.Values(n.names)) {
			if !yield(name, n.under[name]) {
				return
			}
		}
	}
}

// texts are the items of a list, nil for none.
func (n *node) texts() (all []string) {
	if n == nil {
		return nil
	}
	for _, item := range n.items {
		all = append(all, item.text())
	}
	return all
}

// byName are the texts of a table, nil for none.
func (n *node) byName() map[string]string {
	if n == nil {
		return nil
	}
	return under(n, (*node).text)
}

// text is the value of a text; empty if it is none.
func (n *node) text() string {
	s, _ := n.value.(string)
	return s
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// find returns the value at a path below n, or the nearest one above it that is
// there.
func (n *node) find(path string) *node {
	for name := range strings.SplitSeq(path, ".") {
		if n.under[name] == nil {
			return n
		}
		n = n.under[name]
	}
	return n
}

func lastKey(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
