package config

import (
	"path/filepath"

	"github.com/pawl-dev/pawl/pipeline"
)

// include adds to the sections of pipelines what the files say that they name.
func (w *walker) include(root *node) {
	ps := root.under["pipelines"]
	if ps == nil {
		return
	}
	for _, name := range ps.names {
		n := ps.under[name]
		for _, k := range w.source.Kinds {
			if k.Include != "" && n.shape.kind == object && get[string](n, kindKey) == k.Name {
				w.includeFile(n, k)
			}
		}
	}
}

// includeFile adds to a section the keys of its file that it does not state itself. The name of the file is relative to
// the configuration's.
func (w *walker) includeFile(n *node, k *pipeline.Kind) {
	named := n.under[k.Include]
	if named == nil || named.bad || get[string](n, k.Include) == "" {
		return
	}
	s := *w.source
	s.Path = get[string](n, k.Include)
	if !filepath.IsAbs(s.Path) {
		s.Path = filepath.Join(filepath.Dir(w.source.Path), s.Path)
	}
	var err error
	if s.Text, err = s.read(s.Path); err != nil {
		w.refuse(named, "", "cannot be read: %v", err)
		return
	}
	of := newWalker(&s)
	of.values = w.values
	if parsed := of.parse(); parsed != nil {
		shape := fileShape(k)
		from := of.value(&shape, parsed, n.path)
		for _, name := range from.names {
			if name != kindKey && n.under[name] == nil {
				from.under[name].isFrom(s.Path)
				n.add(name, from.under[name])
			}
		}
	}
	w.values, w.secrets = of.values, append(w.secrets, of.secrets...)
	w.problems = append(w.problems, of.problems...)
}

// isFrom notes the file that a value is from.
func (n *node) isFrom(file string) {
	n.file = file
	for _, child := range n.under {
		child.isFrom(file)
	}
	for _, item := range n.items {
		item.isFrom(file)
	}
}
