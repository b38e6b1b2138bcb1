package arch

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// checkNames finds packages with vague names, and init functions.
func checkNames(tr *tree, r *report) {
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			name := strings.TrimSuffix(f.ast.Name.Name, "_test")
			if slices.Contains(vague, name) || slices.Contains(vague, path.Base(p.path)) {
				r.add(f.ast.Name.Pos(), "package %s is named vaguely: a name says what the code does", p.path)
				break
			}
		}
		for _, f := range p.files {
			for _, decl := range f.ast.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					r.add(fn.Pos(), "no init functions: what a program does at start is written in its main")
				}
			}
		}
	}
}

// checkPackageDocs finds packages whose purpose no comment tells.
func checkPackageDocs(tr *tree, r *report) {
	for _, p := range tr.pkgs {
		i := slices.IndexFunc(p.files, func(f *file) bool { return !f.test })
		if i < 0 {
			continue // a folder of tests
		}
		name := p.files[i].ast.Name.Name
		want := "Package " + name + " "
		if name == "main" {
			want = "Command " + path.Base(p.path) + " "
		}
		if !slices.ContainsFunc(p.files, func(f *file) bool {
			return !f.test &&
				strings.HasPrefix(f.ast.Doc.Text(), want)
		}) {
			r.add(p.files[i].ast.Name.Pos(), "%s has no package comment that begins with %q", p.path,
				strings.TrimSpace(want))
		}
	}
}

// selfExplaining methods are known from the standard library.
var selfExplaining = []string{"Error", "String", "GoString", "Unwrap", "Is", "As", "Len", "Less", "Swap", "Push", "Pop",
	"LogValue",
	"MarshalText", "UnmarshalText", "MarshalJSON", "UnmarshalJSON", "MarshalYAML", "UnmarshalYAML", "ServeHTTP",
	"Read", "Write"}

// checkDocs finds exported names without a comment: functions, methods of exported
// types, types, constants, variables and the methods of interfaces.
func checkDocs(tr *tree, r *report) {
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			if f.test || f.ast.Name.Name == "main" {
				continue
			}
			for _, decl := range f.ast.Decls {
				switch d := decl.(type) {
				case *ast.FuncDecl:
					checkFuncDoc(r, d)
				case *ast.GenDecl:
					checkDeclDoc(r, d)
				}
			}
		}
	}
}

func checkFuncDoc(r *report, d *ast.FuncDecl) {
	if !d.Name.IsExported() || d.Doc.Text() != "" {
		return
	}
	recv := receiver(d)
	if d.Recv != nil && (!ast.IsExported(recv) || slices.Contains(selfExplaining, d.Name.Name)) {
		return
	}
	r.add(d.Pos(), "exported %s has no comment", strings.TrimPrefix(recv+"."+d.Name.Name, "."))
}

// receiver is the name of the type that a method belongs to, "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

// checkDeclDoc accepts one comment for a whole group of constants or variables.
func checkDeclDoc(r *report, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if !s.Name.IsExported() {
				continue
			}
			if d.Doc.Text() == "" && s.Doc.Text() == "" {
				r.add(s.Pos(), "exported type %s has no comment", s.Name.Name)
			}
			checkMethods(r, s)
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && d.Doc.Text() == "" && s.Doc.Text() == "" && s.Comment.Text() == "" {
					r.add(name.Pos(), "exported %s has no comment", name.Name)
				}
			}
		}
	}
}

// checkMethods wants a comment for every method of an interface that has several;
// what a single one does is said with the type.
func checkMethods(r *report, s *ast.TypeSpec) {
	t, ok := s.Type.(*ast.InterfaceType)
	if !ok || len(t.Methods.List) < 2 {
		return
	}
	for _, m := range t.Methods.List {
		for _, name := range m.Names {
			if name.IsExported() && m.Doc.Text() == "" && m.Comment.Text() == "" {
				r.add(name.Pos(), "exported %s.%s has no comment", s.Name.Name, name.Name)
			}
		}
	}
}

// checkPackages finds packages that are too large.
func checkPackages(tr *tree, r *report) {
	for _, p := range tr.pkgs {
		lines := 0
		for _, f := range p.files {
			if !f.test {
				lines += f.lines
			}
		}
		if lines > maxPackage && !strings.HasPrefix(p.path, "store/") {
			r.add(token.NoPos, "package %s has %d lines, more than %d: divide it", p.path, lines, maxPackage)
		}
	}
}

// size is the length of a file or function, by the name that exceptions use.
type size struct {
	name  string
	lines int
	pos   token.Pos
}

// checkSizes finds files and functions beyond the limits, and exceptions that are
// none any more. It returns all sizes, longest first.
func checkSizes(tr *tree, r *report, exceptions map[string]string) (files, functions []size) {
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			files = append(files, size{f.path, f.lines, f.ast.Pos()})
			for _, decl := range f.ast.Decls {
				if d, ok := decl.(*ast.FuncDecl); ok {
					name := f.path + ":" + strings.TrimPrefix(receiver(d)+"."+d.Name.Name, ".")
					lines := r.fset.Position(d.End()).Line - r.fset.Position(d.Pos()).Line + 1
					functions = append(functions, size{name, lines, d.Pos()})
				}
			}
		}
	}
	needed := map[string]bool{}
	for limit, list := range map[int][]size{maxFile: files, maxFunction: functions} {
		slices.SortFunc(list, func(a, b size) int { return b.lines - a.lines })
		for _, s := range list {
			if s.lines <= limit {
				break
			}
			needed[s.name] = true
			if exceptions[s.name] == "" {
				r.add(s.pos, "%s has %d lines, more than %d: cut it, or say in data_test.go why it is better whole",
					s.name, s.lines, limit)
			}
		}
	}
	for name := range exceptions {
		if !needed[name] {
			r.add(token.NoPos, "%s is within the limit, or gone: take it out of the exceptions", name)
		}
	}
	return files, functions
}

// checkOwners finds types with more methods than one owner can know.
func checkOwners(tr *tree, r *report) {
	for _, p := range tr.pkgs {
		count := map[string]int{}
		for _, f := range p.files {
			for _, decl := range f.ast.Decls {
				d, ok := decl.(*ast.FuncDecl)
				if !ok || f.test || d.Recv == nil {
					continue
				}
				of := receiver(d)
				count[of]++
				if count[of] == maxMethods+1 && !slices.Contains(vocabularies, p.path+"."+of) {
					r.add(d.Pos(), "%s has more than %d methods: give a part of them a type, and an owner",
						of, maxMethods)
				}
			}
		}
	}
}
