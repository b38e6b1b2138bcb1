package markup

import (
	"html"
	"slices"
	"strings"
)

// Node is an element or, without a name, a text.
type Node struct {
	Name        string
	Text        string
	First, Next *Node

	attrs string
}

// Attr returns an attribute, as that of [Scanner] does.
func (n *Node) Attr(name string) string {
	v, _ := n.Lookup(name)
	return v
}

// Lookup returns an attribute, and whether it is there.
func (n *Node) Lookup(name string) (string, bool) {
	if n == nil {
		return "", false
	}
	return lookup(n.attrs, name, false)
}

// Child returns the first child element of a name, and further down along a path; nil if there is none. It may be
// asked of nil.
func (n *Node) Child(path ...string) *Node {
	for _, name := range path {
		if n == nil {
			return nil
		}
		c := n.First
		for c != nil && c.Name != name {
			c = c.Next
		}
		n = c
	}
	return n
}

// Children calls yield for the child elements; for range.
func (n *Node) Children(yield func(*Node) bool) {
	if n == nil {
		return
	}
	for c := n.First; c != nil; c = c.Next {
		if c.Name != "" && !yield(c) {
			return
		}
	}
}

// All calls yield for all elements below, parents first, until it returns false.
func (n *Node) All(yield func(*Node) bool) { n.all(yield) }

func (n *Node) all(yield func(*Node) bool) bool {
	for c := range n.Children {
		if !yield(c) || !c.all(yield) {
			return false
		}
	}
	return true
}

// Find returns the first element of one of some names anywhere below.
func (n *Node) Find(names ...string) *Node {
	for c := range n.All {
		if slices.Contains(names, c.Name) {
			return c
		}
	}
	return nil
}

// Content is all text below.
func (n *Node) Content() string {
	if n == nil {
		return ""
	}
	if n.First == nil {
		return n.Text
	}
	if n.First.Next == nil && n.First.Name == "" {
		return n.First.Text
	}
	var b strings.Builder
	n.content(&b)
	return b.String()
}

func (n *Node) content(b *strings.Builder) {
	b.WriteString(n.Text)
	for c := n.First; c != nil; c = c.Next {
		c.content(b)
	}
}

// Source is the markup below, as it was but for entities.
func (n *Node) Source() string {
	var b strings.Builder
	n.source(&b)
	return b.String()
}

func (n *Node) source(b *strings.Builder) {
	for c := n.First; c != nil; c = c.Next {
		if c.Name == "" {
			b.WriteString(html.EscapeString(c.Text))
			continue
		}
		b.WriteString("<" + c.Name + " " + c.attrs + ">")
		c.source(b)
		b.WriteString("</" + c.Name + ">")
	}
}

// maxDepth bounds how deeply elements of a tree are nested: whoever walks it may recurse.
const maxDepth = 512

// Tree holds the nodes of one element at a time.
type Tree struct {
	chunks [][]Node
	used   int
}

const chunk = 512

func (t *Tree) node() *Node {
	i := t.used / chunk
	if i == len(t.chunks) {
		t.chunks = append(t.chunks, make([]Node, chunk))
	}
	n := &t.chunks[i][t.used%chunk]
	t.used++
	*n = Node{}
	return n
}

// Read makes a tree of the element that the scanner has just opened. The nodes of the element that was read before
// are used again.
func (t *Tree) Read(s *Scanner) (*Node, error) {
	t.used = 0
	root := t.element(s)
	if s.Empty {
		return root, nil
	}
	type open struct{ n, last *Node }
	stack := []open{{n: root}}
	add := func(n *Node) {
		top := &stack[len(stack)-1]
		if top.last == nil {
			top.n.First = n
		} else {
			top.last.Next = n
		}
		top.last = n
	}
	for {
		switch s.Next() {
		case End:
			if s.Err != nil {
				return nil, s.Err
			}
			return nil, ErrSyntax
		case Text:
			n := t.node()
			n.Text = s.Decoded()
			add(n)
		case Open:
			n := t.element(s)
			add(n)
			if s.Empty {
				continue
			}
			if stack = append(stack, open{n: n}); len(stack) > maxDepth {
				return nil, ErrDepth
			}
		case Close:
			if s.Name != stack[len(stack)-1].n.Name {
				return nil, ErrSyntax
			}
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				return root, nil
			}
		}
	}
}

func (t *Tree) element(s *Scanner) *Node {
	n := t.node()
	n.Name, n.attrs = s.Name, s.attrs
	return n
}

// Parse makes a tree of a whole XML document.
func Parse(src string) (*Node, error) {
	s := NewXML(src)
	for {
		switch s.Next() {
		case Open:
			return new(Tree).Read(s)
		case End:
			if s.Err != nil {
				return nil, s.Err
			}
			return nil, ErrSyntax
		}
	}
}
