package config

import "github.com/pawl-dev/pawl/pipeline"

// fileShape is the shape of a file that holds one section of a kind.
func fileShape(k *pipeline.Kind) shape {
	s, of := sectionShape(k.Fields), kindField([]*pipeline.Kind{k})
	of.must, of.shape.choices = false, []string{k.Name}
	s.fields = append([]field{of}, s.fields...)
	return s
}

// LoadSection reads and checks a file that holds one section of a kind, as it could stand under pipelines; its key kind
// may be left out. The secrets in it are returned, too. Its error is a [Problems] with all that is wrong.
func LoadSection(s Source, k *pipeline.Kind) (section pipeline.Section, secrets []string, err error) {
	w := newWalker(&s)
	shape := fileShape(k)
	root := &node{shape: &shape, line: 1, column: 1, keyLine: 1, keyColumn: 1}
	if n := w.parse(); n != nil {
		root = w.value(&shape, n, "")
		root.keyLine, root.keyColumn = root.line, root.column
	}
	w.defaults(root)
	w.checkSection(root)
	section = root.section()
	if len(w.problems.Faults()) == 0 && k.Check != nil {
		for _, f := range k.Check(k.Name, section) {
			w.refuse(root.find(f.Path), f.Hint, "%s", f.Why)
		}
	}
	w.problems.sort()
	if len(w.problems.Faults()) > 0 {
		return section, nil, w.problems
	}
	return section, w.secrets, nil
}
