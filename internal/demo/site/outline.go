package site

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"strconv"
)

// A kind says what a page is about.
type kind uint8

const (
	kindIndex kind = iota
	kindPackage
	kindType
	kindFunc
	kindConst
	kindVar
	kindSource
)

// String returns the value of data-kind in a page's markup.
func (k kind) String() string {
	return [...]string{"index", "package", "type", "func", "const", "var", "source"}[k]
}

// shelf is the rank of a kind within a package; constants and variables mix.
func (k kind) shelf() int {
	if k == kindVar {
		k = kindConst
	}
	return int(k)
}

// parseOutline parses a file for its declarations, and for the synopsis of its
// package comment. Comments are most of what a parser allocates; only the head
// of the file is parsed with them.
func parseOutline(name string, text []byte) (file *ast.File, synopsis string, err error) {
	file, err = parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	head, err := parser.ParseFile(token.NewFileSet(), name, text, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		return nil, "", err
	}
	if head.Doc != nil {
		synopsis = new(doc.Package).Synopsis(head.Doc.Text())
	}
	return file, synopsis, nil
}

// add enters what one file declares and imports.
func (v *volume) add(name string, size int, file *ast.File) {
	v.sources = append(v.sources, source{name: name, size: size})
	for _, spec := range file.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil {
			v.imports = append(v.imports, path)
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			v.addFunc(name, decl)
		case *ast.GenDecl:
			v.addGroup(name, decl)
		}
	}
}

func (v *volume) addFunc(file string, decl *ast.FuncDecl) {
	if !v.documents(decl.Name.Name) {
		return
	}
	if decl.Recv == nil {
		v.entries = append(v.entries, entry{kind: kindFunc, names: []string{decl.Name.Name}, file: file})
		return
	}
	if receiver := receiverName(decl.Recv); v.documents(receiver) {
		v.methods[receiver+"."+decl.Name.Name] = true
	}
}

// addGroup enters the types of a type declaration one by one, and the names of
// a const or var declaration together.
func (v *volume) addGroup(file string, decl *ast.GenDecl) {
	var names []string
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if v.documents(spec.Name.Name) {
				v.entries = append(v.entries, entry{kind: kindType, names: []string{spec.Name.Name}, file: file})
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if v.documents(name.Name) {
					names = append(names, name.Name)
				}
			}
		}
	}
	if len(names) == 0 {
		return
	}
	group := entry{kind: kindConst, names: names, file: file}
	if decl.Tok == token.VAR {
		group.kind = kindVar
	}
	v.entries = append(v.entries, group)
}

// documents reports whether name is part of the package's documentation:
// exported, or anything in builtin, whose names are those of the language.
func (v *volume) documents(name string) bool {
	return plainName(name) && (v.path == "builtin" || token.IsExported(name))
}

// receiverName returns the name of the type that a method belongs to.
func receiverName(recv *ast.FieldList) string {
	if len(recv.List) == 0 {
		return ""
	}
	expr := recv.List[0].Type
	for {
		switch x := expr.(type) {
		case *ast.StarExpr:
			expr = x.X
		case *ast.ParenExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
