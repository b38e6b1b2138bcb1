package config

import (
	"bytes"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Load reads and checks a configuration as a whole. Its error is a [Problems] with all
// that is wrong; what may be right, but is hardly meant, are warnings of the Config.
// With parts, such as "store", only what is wrong with these keys counts: a command
// that inspects a store does not need the settings of workers.
func Load(s Source, parts ...string) (*Config, error) {
	w := newWalker(&s)
	root := w.root()
	w.include(root)
	w.overlay(root)
	w.defaults(root)
	w.check(root)
	w.checkPipelines(root)
	c := w.bind(root)
	w.bindPipelines(c, root)
	w.bindSchedules(c, root)
	w.checkWork(root)
	if len(parts) > 0 {
		w.problems = slices.DeleteFunc(w.problems, func(p Problem) bool {
			return p.Path != "" && !slices.Contains(parts, topKey(p.Path))
		})
	}
	w.problems.sort()
	if len(w.problems.Faults()) > 0 {
		return nil, w.problems
	}
	c.Warnings = w.problems
	return c, nil
}

// newWalker begins to read a file.
func newWalker(s *Source) *walker {
	// some editors begin a file with this mark; it is no part of the text
	s.Text = bytes.TrimPrefix(s.Text, []byte("\uFEFF"))
	return &walker{source: s, lines: s.lines(), anchors: map[string]ast.Node{}}
}

// topKey is the first key of a path.
func topKey(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}

// root is what the file says.
func (w *walker) root() *node {
	f := format(w.source)
	if n := w.parse(); n != nil {
		root := w.value(&f, n, "")
		root.keyLine, root.keyColumn = root.line, root.column
		return root
	}
	return &node{shape: &f}
}

// overlay puts the environment and flags above the file. What the file says must
// be right all the same.
func (w *walker) overlay(root *node) {
	root.each(func(parent *node, f *field) {
		value, origin := "", ""
		if f.env != "" {
			value, origin = w.source.getenv(f.env), "env "+f.env
		}
		if given, ok := w.source.Flags[f.flag]; ok && f.flag != "" {
			value, origin = given, "flag --"+f.flag
		}
		if value == "" {
			return
		}
		child := &node{shape: &f.shape, field: f, path: join(parent.path, f.name), origin: origin}
		plain := &walker{source: &Source{Mask: w.source.Mask}} // ${…} is for the file
		plain.literal(child, value)
		w.problems = append(w.problems, plain.problems...)
		parent.add(f.name, child)
	})
}

// literal gives a node its value from outside the file.
func (w *walker) literal(out *node, value string) {
	out.shown = w.source.mask(value)
	v, why, hint := out.shape.parse(value, out.shown)
	if why != "" {
		w.refuse(out, hint, "%s", why)
		return
	}
	out.value = v
}

// each calls f for every key of the objects of the file, those within tables and
// lists too, whether the key is there or not.
func (n *node) each(f func(parent *node, f *field)) {
	if n.shape.kind != object {
		for child := range n.children() {
			child.each(f)
		}
		return
	}
	for i := range n.shape.fields {
		key := &n.shape.fields[i]
		if key.later {
			continue
		}
		f(n, key)
		child := n.under[key.name]
		if child == nil && key.shape.kind == object && (n.path == "" || key.shape.filled) {
			child = &node{shape: &key.shape, field: key, path: join(n.path, key.name), origin: originDefault}
			n.add(key.name, child)
		}
		if child != nil {
			child.each(f)
		}
	}
}

const originDefault = "default"

// defaults fills in values that are not stated.
func (w *walker) defaults(root *node) {
	root.each(func(parent *node, f *field) {
		if parent.under[f.name] != nil || f.def == "" && f.fill == nil || !f.goesWith(handlerOf(parent)) {
			return
		}
		value := f.def
		if f.fill != nil {
			value = f.fill(parent)
		}
		child := &node{shape: &f.shape, field: f, path: join(parent.path, f.name), origin: originDefault}
		w.literal(child, value)
		parent.add(f.name, child)
	})
}

// handlerOf is the handler of a topic, or whatever else the keys of an object go by; empty for other objects.
func handlerOf(n *node) string {
	if n.shape.kind != object || n.shape.by == "" {
		return ""
	}
	return get[string](n, n.shape.by)
}
