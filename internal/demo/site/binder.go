package site

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// A binder renders the documentation of one package. It holds the syntax
// trees, which are many times the size of what comes out, and is thrown away
// with them.
type binder struct {
	catalogue *catalogue
	volume    *volume
	fset      *token.FileSet
	imports   map[string]map[string]string // file, local name → import path
	doc       *doc.Package
	parser    *comment.Parser
}

// bind renders the page of a package and those of its entries.
func bind(c *catalogue, v *volume) (map[*page]sheet, error) {
	b := &binder{catalogue: c, volume: v, fset: token.NewFileSet(), imports: make(map[string]map[string]string)}
	var files []*ast.File
	for _, s := range v.sources {
		file, err := parser.ParseFile(b.fset, filepath.Join(v.dir, s.name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("render package %s: %w", v.path, err)
		}
		files = append(files, file)
		b.imports[b.fset.File(file.FileStart).Name()] = localNames(file)
	}
	var mode doc.Mode
	if v.path == "builtin" {
		mode = doc.AllDecls
	}
	var err error
	if b.doc, err = doc.NewFromFiles(b.fset, files, v.path, mode); err != nil {
		return nil, fmt.Errorf("render package %s: %w", v.path, err)
	}
	b.parser = b.doc.Parser()
	return b.sheets(), nil
}

// localNames returns the import path of each name that a file's imports bind.
func localNames(file *ast.File) map[string]string {
	names := make(map[string]string, len(file.Imports))
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		switch {
		case err != nil:
			continue
		case spec.Name != nil:
			names[spec.Name.Name] = imported
		default:
			names[usualName(imported)] = imported
		}
	}
	return names
}

// usualName guesses a package's name from its path: the last element that is
// not a version, as in math/rand/v2. In the standard library that is right.
func usualName(imported string) string {
	name := path.Base(imported)
	if number, ok := strings.CutPrefix(name, "v"); ok {
		if _, err := strconv.Atoi(number); err == nil {
			name = path.Base(path.Dir(imported))
		}
	}
	return name
}

// position returns where a declaration begins.
func (b *binder) position(decl ast.Node) token.Position {
	return b.fset.PositionFor(decl.Pos(), false)
}

// sheets renders every page of the package that was admitted.
func (b *binder) sheets() map[*page]sheet {
	sheets := make(map[*page]sheet)
	if p := b.catalogue.byPath[packagePath(b.volume.path)]; p != nil {
		sheets[p] = b.packageSheet()
	}
	for _, group := range b.groups() {
		if p := b.page(b.groupName(group)); p != nil {
			sheets[p] = b.groupSheet(p, group)
		}
	}
	for _, f := range b.funcs() {
		if p := b.page(f.Name); p != nil {
			sheets[p] = b.funcSheet(p, f)
		}
	}
	for _, t := range b.doc.Types {
		if p := b.page(t.Name); p != nil {
			sheets[p] = b.typeSheet(p, t)
		}
	}
	return sheets
}

// page returns the page of a name of this package, or nil.
func (b *binder) page(name string) *page {
	return b.catalogue.symbols[symbol{b.volume.path, name}]
}

// groups returns all groups of constants and variables; go/doc files some of
// them under a type.
func (b *binder) groups() []*doc.Value {
	all := append(append([]*doc.Value(nil), b.doc.Consts...), b.doc.Vars...)
	for _, t := range b.doc.Types {
		all = append(append(all, t.Consts...), t.Vars...)
	}
	return all
}

// groupName returns the name by which the catalogue knows a group: the first
// that is documented.
func (b *binder) groupName(group *doc.Value) string {
	for _, name := range group.Names {
		if b.volume.documents(name) {
			return name
		}
	}
	return ""
}

// funcs returns all functions, constructors included.
func (b *binder) funcs() []*doc.Func {
	all := append([]*doc.Func(nil), b.doc.Funcs...)
	for _, t := range b.doc.Types {
		all = append(all, t.Funcs...)
	}
	return all
}
