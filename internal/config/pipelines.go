package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
)

// Pipeline is a section under pipelines.
type Pipeline struct {
	Name    string
	Kind    *pipeline.Kind
	Section pipeline.Section
}

const kindKey = "kind"

// pipelinesField is the key under which pipelines are: the keys of each follow from its kind.
func pipelinesField(of *Source) field {
	kinds := of.Kinds
	base := &shape{kind: object, variants: map[string]*shape{}, fields: []field{kindField(kinds)}}
	for _, k := range kinds {
		if k.New != nil {
			s := of.sectionShape(k.Fields)
			s.fields = append([]field{kindField(kinds)}, s.fields...)
			base.variants[k.Name] = &s
		}
	}
	return field{name: "pipelines", later: len(base.variants) == 0,
		doc:   "Pipelines, by name. Their topics are called NAME.STAGE.",
		shape: shape{kind: table, of: base, checkKey: pawl.ValidTopic, noun: "mapping by name"}}
}

func kindField(kinds []*pipeline.Kind) field {
	var names []string
	for _, k := range kinds {
		if k.New != nil {
			names = append(names, k.Name)
		}
	}
	names = append(names, make([]string, max(0, 1-len(names)))...)
	return field{name: kindKey, doc: "What the pipeline is.", must: true, shape: oneOf(names...)}
}

// sectionShape is what the fields of a kind describe.
func (s *Source) sectionShape(fields []pipeline.Field) shape {
	out := shape{kind: object, filled: true, described: fields}
	for i := range fields {
		out.fields = append(out.fields, s.sectionField(&fields[i]))
	}
	return out
}

func (s *Source) sectionField(f *pipeline.Field) field {
	return field{name: f.Name, doc: f.Doc, shape: s.fieldShape(f), def: f.Default, defDoc: f.DefaultDoc,
		must: f.Required, live: f.Live}
}

func (of *Source) fieldShape(f *pipeline.Field) shape {
	s := shape{min: f.Min, max: f.Max, sensitive: f.Secret, secret: f.Secret, raw: f.Raw, choices: f.Choices}
	if s.max == 0 {
		s.max = math.MaxInt64
	}
	if f.Check != nil {
		s.check = func(text string) (why, hint string) {
			if err := f.Check(text); err != nil {
				return err.Error(), ""
			}
			return "", ""
		}
	}
	switch f.Type {
	case pipeline.Int:
		s.kind = integer
		s.max = min(s.max, math.MaxInt)
	case pipeline.Number:
		s.kind = number64
	case pipeline.Bool:
		s.kind = boolean
	case pipeline.Duration:
		s.kind, s.max = duration, min(s.max, int64(pawl.MaxDelay))
	case pipeline.Rate:
		s.kind = rate
	case pipeline.Size:
		s.kind = size
	case pipeline.Choice:
		s.kind = choice
	case pipeline.URL:
		s.noun, s.sensitive = nounURL, true
	case pipeline.StoreURL:
		s.noun, s.sensitive, s.check = nounURL, true, of.checkStore
	case pipeline.Texts:
		s = shape{kind: list, of: &shape{kind: text, sensitive: f.Secret, secret: f.Secret, check: s.check},
			noun: "list of texts"}
	case pipeline.Object:
		s = of.sectionShape(f.Fields)
		s.short = f.Short
	case pipeline.Table, pipeline.List:
		each := of.sectionShape(f.Fields)
		if f.Of != nil {
			each = of.fieldShape(f.Of)
		}
		s = shape{kind: map[pipeline.Type]kind{pipeline.Table: table, pipeline.List: list}[f.Type], of: &each,
			checkKey: filledKey}
	}
	return s
}

func filledKey(name string) error {
	if name == "" {
		return errors.New("is empty")
	}
	return nil
}

// chooseVariant is the shape of a mapping whose keys follow from the value of its key kind. Where that value is not
// right, the mapping is not looked at any further than that.
func (w *walker) chooseVariant(out *node, value func(key string) string) {
	if s := out.shape.variants[value(kindKey)]; s != nil {
		out.shape = s
		return
	}
	out.open = true
}

// checkPipelines finds what is missing in the sections of pipelines.
func (w *walker) checkPipelines(root *node) {
	if ps := root.under["pipelines"]; ps != nil {
		for _, name := range ps.names {
			w.checkSection(ps.under[name])
		}
	}
	for _, k := range w.source.Kinds {
		for _, f := range k.Top {
			w.checkSection(root.under[f.Name])
		}
	}
}

func (w *walker) checkSection(n *node) {
	if n == nil || n.bad {
		return
	}
	for i := range n.shape.fields {
		f := &n.shape.fields[i]
		child := n.under[f.name]
		absent := child == nil || f.shape.kind == object && child.line == 0
		if f.must && n.line > 0 && absent && !slices.Contains(n.missed, f.name) {
			w.refuseKey(n, "add "+f.name+": …", "needs a %s", f.name)
		}
	}
	for child := range n.children() {
		w.checkSection(child)
	}
}

// bindPipelines makes sections of what is right so far, and asks the kinds what they have against them.
func (w *walker) bindPipelines(c *Config, root *node) {
	faults := len(w.problems.Faults())
	c.tops = map[string]pipeline.Section{}
	for _, k := range w.source.Kinds {
		for i := range k.Top {
			c.tops[k.Top[i].Name] = w.topSection(root, &k.Top[i])
		}
	}
	for name, n := range root.under["pipelines"].inOrder() {
		i := slices.IndexFunc(w.source.Kinds, func(k *pipeline.Kind) bool { return k.Name == get[string](n, kindKey) })
		if i < 0 {
			continue
		}
		p := Pipeline{Name: name, Kind: w.source.Kinds[i], Section: n.section()}
		c.Pipelines = append(c.Pipelines, p)
		if p.Kind.Check == nil || faults > 0 {
			continue
		}
		for _, f := range p.Kind.Check(name, p.Section) {
			w.refuse(n.find(f.Path), f.Hint, "%s", f.Why)
		}
	}
}

// topSection is a section at the top of the file, or its defaults.
func (w *walker) topSection(root *node, f *pipeline.Field) pipeline.Section {
	if n := root.under[f.Name]; n != nil {
		return n.section()
	}
	return pipeline.NewSection(f.Fields, nil)
}

// section are the values of an object with the types that package pipeline promises.
func (n *node) section() pipeline.Section {
	values := map[string]any{}
	for i := range n.shape.described {
		f := &n.shape.described[i]
		if child := n.under[f.Name]; child != nil {
			if v := child.plain(); v != nil {
				values[f.Name] = v
			}
		}
	}
	return pipeline.NewSection(n.shape.described, values)
}

func (n *node) plain() any {
	switch n.shape.kind {
	case object:
		return n.section()
	case table:
		if n.shape.of.kind == object {
			return under(n, (*node).section)
		}
		return n.byName()
	case list:
		if n.shape.of.kind == object {
			all := make([]pipeline.Section, len(n.items))
			for i, item := range n.items {
				all[i] = item.section()
			}
			return all
		}
		return append([]string{}, n.texts()...)
	}
	if i, ok := n.value.(int); ok {
		return int64(i)
	}
	return n.value
}

func under[T any](n *node, of func(*node) T) map[string]T {
	all := make(map[string]T, len(n.under))
	for name, child := range n.under {
		all[name] = of(child)
	}
	return all
}

// rules are those of all kinds: overrides are laid over them, too.
func (w *walker) rules() []policy.Rule {
	var all []policy.Rule
	for _, k := range w.source.Kinds {
		all = append(all, k.Rules...)
	}
	return all
}

// Top is a section that a kind adds at the top of the file.
func (c *Config) Top(name string) (pipeline.Section, error) {
	s, ok := c.tops[name]
	if !ok {
		return s, fmt.Errorf("no pipeline has a section %s at the top of the file", name)
	}
	return s, nil
}

// fileShape is the shape of a file that holds one section of a kind.
func (s *Source) fileShape(k *pipeline.Kind) shape {
	out, of := s.sectionShape(k.Fields), kindField([]*pipeline.Kind{k})
	of.must, of.shape.choices = false, []string{k.Name}
	out.fields = append([]field{of}, out.fields...)
	return out
}

// LoadSection reads and checks a file that holds one section of a kind, as it could stand under pipelines; its key kind
// may be left out. The secrets in it are returned, too. Its error is a [Problems] with all that is wrong.
func LoadSection(s Source, k *pipeline.Kind) (section pipeline.Section, secrets []string, err error) {
	w := newWalker(&s)
	shape := s.fileShape(k)
	root := &node{shape: &shape, line: 1, column: 1, keyLine: 1, keyColumn: 1}
	if n := w.parse(); n != nil {
		root = w.value(&shape, n, "")
		root.keyLine, root.keyColumn = root.line, root.column
	}
	w.defaults(root)
	w.checkSection(root)
	section = root.section()
	if len(w.problems.Faults()) == 0 && k.Check != nil {
		for _, f := range k.Check("", section) {
			w.refuse(root.find(f.Path), f.Hint, "%s", f.Why)
		}
	}
	w.problems.sort()
	if len(w.problems.Faults()) > 0 {
		return section, nil, w.problems
	}
	return section, w.secrets, nil
}

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
		shape := s.fileShape(k)
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
	for child := range n.children() {
		child.isFrom(file)
	}
}
