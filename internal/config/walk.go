package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// walker makes nodes of what the parser found, and collects problems.
type walker struct {
	source   *Source
	lines    []string
	anchors  map[string]ast.Node
	problems Problems
	secrets  []string
	values   int // that were looked at
}

// maxValues bounds how many values a file may have, with those that aliases repeat.
const maxValues = 20_000

// maxProblems bounds how many problems are looked for: who has more corrects those first.
const maxProblems = 200

// report adds a problem at a place in the file.
func (w *walker) report(line, column int, path, hint, why string, args ...any) {
	switch n := len(w.problems); {
	case n > maxProblems:
		return
	case n == maxProblems:
		path, hint, why, args = "", "correct these first", "only the first %d problems are shown", []any{maxProblems}
	}
	w.problems = append(w.problems, Problem{
		File: w.source.Path, Line: line, Column: column, Path: path, Message: fmt.Sprintf(why, args...), Hint: hint,
		excerpt: excerpt(w.lines, line, column),
	})
}

// refuse reports what is wrong with a value, wherever it came from.
func (w *walker) refuse(n *node, hint, why string, args ...any) {
	n.bad = true
	if n.line > 0 && n.file == "" {
		w.report(n.line, n.column, n.path, hint, why, args...)
		return
	}
	w.elsewhere(n, hint, why, args...)
}

// warn reports what is good, but perhaps not what was meant.
func (w *walker) warn(n *node, hint, why string, args ...any) {
	w.report(max(n.line, 1), max(n.column, 1), n.path, hint, why, args...)
	w.problems[len(w.problems)-1].Warning = true
}

// refuseKey reports what is wrong with all of a value, at its key.
func (w *walker) refuseKey(n *node, hint, why string, args ...any) {
	if n.file != "" {
		w.elsewhere(n, hint, why, args...)
		return
	}
	w.report(max(n.keyLine, 1), max(n.keyColumn, 1), n.path, hint, why, args...)
}

// elsewhere reports what is wrong with a value that the configuration file does not state.
func (w *walker) elsewhere(n *node, hint, why string, args ...any) {
	p := Problem{File: n.origin, Path: n.path, Message: fmt.Sprintf(why, args...), Hint: hint}
	if n.file != "" {
		p.File, p.Line, p.Column = n.file, n.line, n.column
	}
	w.problems = append(w.problems, p)
}

// parse reads the file. Its root is nil if it is empty, or no YAML.
func (w *walker) parse() (root ast.Node) {
	defer func() {
		if v := recover(); v != nil {
			w.report(1, 1, "", "correct it first: nothing else was checked", "is not valid YAML: %v", v)
			root = nil
		}
	}()
	if why := w.source.unreadable(); why != "" {
		w.report(1, 1, "", "", "%s", why)
		return nil
	}
	file, err := parser.ParseBytes(w.source.Text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		w.syntax(err)
		return nil
	}
	for i, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case root != nil && i > 0:
			line, column := place(doc.Body)
			w.report(line, column, "", "put all into one", "a second document begins here")
			return root
		default:
			root = doc.Body
		}
	}
	return root
}

func (w *walker) syntax(err error) {
	line, column, why := 1, 1, err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		why = e.GetMessage()
		if t := e.GetToken(); t != nil {
			line, column = at(t)
		}
	}
	hint := "correct it first: the rest of the file was not checked"
	if strings.Contains(why, "mapping value is not allowed") {
		hint = "a value with a colon at its end or before a space needs quotes; " + hint
	}
	w.report(w.within(line), column, "", hint, "is not valid YAML: %s", why)
}

// within keeps a line inside the file.
func (w *walker) within(line int) int { return min(max(line, 1), max(len(w.lines), 1)) }

func at(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return max(t.Position.Line, 1), max(t.Position.Column, 1)
}

// place is where a value begins.
func place(n ast.Node) (line, column int) {
	switch v := n.(type) {
	case *ast.MappingNode:
		if len(v.Values) > 0 && !v.IsFlowStyle {
			return place(v.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return place(v.Key)
	}
	return at(n.GetToken())
}

// value makes a node of what stands for a key.
func (w *walker) value(s *shape, n ast.Node, path string) *node {
	line, column := place(n)
	if w.values++; w.values > maxValues {
		if w.values == maxValues+1 {
			w.report(w.within(line), column, path, "write fewer; an alias counts as what it stands for",
				"the file has more than %d values", maxValues)
		}
		return &node{shape: s, path: path, bad: true}
	}
	out := &node{shape: s, path: path, line: w.within(line), column: column,
		origin: fmt.Sprintf("%s:%d", w.source.Path, line)}
	n = w.resolve(out, n)
	if out.bad {
		return out
	}
	if _, null := n.(*ast.NullNode); null {
		w.refuse(out, "give it one, or leave it out", "has no value")
		return out
	}
	switch s.kind {
	case object, table:
		w.mapping(out, n)
	case list:
		w.sequence(out, n)
	default:
		w.scalar(out, n)
	}
	return out
}

// maxAliases bounds how often one alias leads to another.
const maxAliases = 10

// resolve looks through anchors, aliases and tags.
func (w *walker) resolve(out *node, n ast.Node) ast.Node {
	for range maxAliases {
		switch v := n.(type) {
		case *ast.AnchorNode:
			w.anchors[v.Name.GetToken().Value] = v.Value
			n = v.Value
		case *ast.AliasNode:
			name := v.Value.GetToken().Value
			if n = w.anchors[name]; n == nil {
				w.refuse(out, "", "there is no anchor &%s above it", name)
				return v
			}
		case *ast.TagNode:
			w.refuse(out, "leave it out", "has a tag, %s; the key determines the type of a value", v.Start.Value)
			return v
		default:
			if n == nil {
				w.refuse(out, "give it one, or leave it out", "has no value")
			}
			return n
		}
	}
	w.refuse(out, "", "aliases refer to each other in a circle")
	return n
}

// entries are the pairs of a mapping.
func entries(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch v := n.(type) {
	case *ast.MappingNode:
		return v.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{v}, true
	}
	return nil, false
}

func (w *walker) mapping(out *node, n ast.Node) {
	pairs, ok := entries(n)
	if short := out.shape.field(out.shape.short); !ok && short != nil {
		child := w.value(&short.shape, n, join(out.path, short.name))
		child.field, child.keyLine, child.keyColumn = short, child.line, child.column
		out.add(short.name, child)
		return
	}
	if !ok {
		w.refuse(out, "", "must be a mapping of keys to values (got %s)", kindOf(n))
		return
	}
	if out.shape.variants != nil {
		w.chooseVariant(out, func(key string) string {
			for _, pair := range pairs {
				if pair.Key.GetToken().Value == key && pair.Value.GetToken() != nil {
					return pair.Value.GetToken().Value
				}
			}
			return ""
		})
	}
	first := map[string]int{}
	for _, pair := range pairs {
		line, column := place(pair.Key)
		line = w.within(line)
		if pair.Key.IsMergeKey() {
			out.open = true
			w.report(line, column, out.path, "write the keys out", "merging with << is not part of this format")
			continue
		}
		name := pair.Key.GetToken().Value
		path := join(out.path, name)
		if before := first[name]; before > 0 {
			w.report(line, column, path, "keep one of them", "is there already, in line %d", before)
			continue
		}
		first[name] = line
		s, f := w.key(out, name, path, line, column)
		if s == nil {
			w.anchorsWithin(pair.Value)
			continue
		}
		child := w.value(s, pair.Value, path)
		child.field, child.keyLine, child.keyColumn = f, line, column
		out.add(name, child)
	}
}

// anchorsWithin records the anchors in a value that is skipped: aliases to them are
// valid.
func (w *walker) anchorsWithin(n ast.Node) {
	if n == nil {
		return
	}
	for _, found := range ast.Filter(ast.AnchorType, n) {
		if a, ok := found.(*ast.AnchorNode); ok {
			w.anchors[a.Name.GetToken().Value] = a.Value
		}
	}
}

// key finds what a key stands for; nil if there is no such key.
func (w *walker) key(out *node, name, path string, line, column int) (*shape, *field) {
	if out.shape.kind == table {
		if err := out.shape.checkKey(name); err != nil {
			out.missed = append(out.missed, name)
			w.report(line, column, path, "", "%v", err)
			return nil, nil
		}
		return out.shape.of, nil
	}
	f := out.shape.field(name)
	switch {
	case f == nil && out.open && out.shape.variants != nil: // its kind is not known, and so neither are its keys
		return nil, nil
	case f == nil:
		var known []string
		for i := range out.shape.fields {
			if !out.shape.fields[i].later {
				known = append(known, out.shape.fields[i].name)
			}
		}
		hint, meant := "there is "+strings.Join(known, ", "), name
		if n := Near(name, known); n != "" {
			hint, meant = "did you mean "+n+"?", n
		}
		out.missed = append(out.missed, meant)
		w.report(line, column, path, hint, "unknown key")
		return nil, nil
	case f.later:
		w.report(line, column, path, "leave it out", "is planned, but not in this version")
		return nil, nil
	}
	return &f.shape, f
}

func (w *walker) sequence(out *node, n ast.Node) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		w.refuse(out, "begin each item with a dash", "must be a list (got %s)", kindOf(n))
		return
	}
	for i, item := range seq.Values {
		child := w.value(out.shape.of, item, fmt.Sprintf("%s[%d]", out.path, i))
		child.keyLine, child.keyColumn = child.line, child.column
		out.items = append(out.items, child)
	}
}

func (w *walker) scalar(out *node, n ast.Node) {
	var written string
	switch v := n.(type) {
	case *ast.LiteralNode:
		written = v.Value.Value
	case *ast.StringNode:
		written = v.Value
	case ast.ScalarNode:
		written = v.GetToken().Value
	default:
		hint := ""
		if _, pairs := entries(n); pairs && out.shape.kind == text {
			hint = "within […] a text with a colon needs quotes"
		}
		w.refuse(out, hint, "must be %s (got %s)", article(out.shape), kindOf(n))
		return
	}
	w.read(out, written)
}

// read gives a node its value from what is written for it.
func (w *walker) read(out *node, written string) {
	e := expanded{value: written, shown: written}
	if !out.shape.raw {
		var why, hint string
		if e, why, hint = w.source.expand(written, out.shape.sensitive && out.shape.noun == nounURL); why != "" {
			w.refuse(out, hint, "%s", why)
			return
		}
	}
	if out.shape.sensitive {
		w.secrets = append(w.secrets, e.secrets...)
	}
	out.shown = w.source.mask(e.shown)
	if out.shape.secret {
		w.secrets = append(w.secrets, e.value)
	}
	if out.shape.secret || out.shape.sensitive && secretName(lastKey(out.path)) {
		out.shown = Mask // also one that is written into the file
	}
	v, why, hint := out.shape.parse(e.value, out.shown)
	if why != "" {
		for _, secret := range e.secrets {
			why = strings.ReplaceAll(why, secret, Mask)
		}
		w.refuse(out, hint, "%s", why)
		return
	}
	out.value = v
}

// article is the kind of a value within a sentence.
func article(s *shape) string {
	switch s.kind {
	case integer, duration, rate, number64, size:
		return "a " + s.what()
	case choice:
		return either(s.choices)
	case boolean:
		return s.what()
	default:
		return "a text"
	}
}

// kindOf names what is there instead of what should be.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	}
	return quote(cmp.Or(n.GetToken().Value, "nothing"))
}
