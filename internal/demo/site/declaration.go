package site

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"slices"
	"strings"
)

// A mark is a piece of a declaration's text to be wrapped in tags.
type mark struct {
	from, to int    // offsets in the text
	href     string // a link, if not empty
	anchor   string // an id, if not empty
	comment  bool
}

// printed returns a declaration as gofmt would print it, with spaces.
func (b *binder) printed(decl ast.Node) string {
	var out bytes.Buffer
	config := printer.Config{Mode: printer.UseSpaces, Tabwidth: 4}
	if err := config.Fprint(&out, b.fset, decl); err != nil {
		return fmt.Sprintf("// cannot be printed: %v", err)
	}
	return out.String()
}

// signature returns a function's declaration in one line.
func (b *binder) signature(decl *ast.FuncDecl) string {
	return strings.Join(strings.Fields(b.printed(decl)), " ")
}

// declaration writes a declaration with links to what it mentions, and returns
// the pages it links to outside of builtin. The page it is for is not linked.
// The values of a group get an anchor each.
func (b *binder) declaration(m *markup, decl ast.Decl, self *page) []string {
	text := b.printed(decl)
	l := &linker{binder: b, imports: b.imports[b.position(decl).Filename], self: self}
	m.tags("<pre class=\"decl\">")
	at := 0
	for _, k := range l.marks(text) {
		m.text(text[at:k.from])
		piece := text[k.from:k.to]
		switch {
		case k.comment:
			m.tags("<i>")
			m.text(piece)
			m.tags("</i>")
		case k.anchor != "":
			m.tags(`<b id="`)
			m.text(k.anchor)
			m.tags(`">`)
			m.text(piece)
			m.tags("</b>")
		default:
			m.link(k.href, piece)
		}
		at = k.to
	}
	m.text(text[at:])
	m.tags("</pre>\n")
	return l.mentioned
}

// A linker finds the marks of one declaration. It reads the printed text
// again: there, positions are those of the text, which in the sources they are
// not, and a name's place in the tree tells a type from a field called alike.
type linker struct {
	*binder
	imports   map[string]string // local name to import path, of the declaration's file
	self      *page
	base      int             // offset of the text in what is parsed
	own       map[string]bool // type parameters
	found     []mark
	mentioned []string
}

// marks returns the marks in a declaration's text, in order.
func (l *linker) marks(text string) []mark {
	const clause = "package p\n"
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", clause+text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || len(file.Decls) != 1 {
		return nil // it stays plain text
	}
	l.base = fset.File(file.FileStart).Base() + len(clause)
	l.own = typeParams(file.Decls[0])
	ast.Walk(l, file.Decls[0])
	for _, group := range file.Comments {
		for _, c := range group.List {
			l.found = append(l.found, mark{from: int(c.Pos()) - l.base, to: int(c.End()) - l.base, comment: true})
		}
	}
	slices.SortFunc(l.found, func(a, b mark) int { return cmp.Compare(a.from, b.from) })
	return l.found
}

// Visit marks the names that have a page, and steps over those that are being
// declared or belong to a value's inside.
func (l *linker) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.FuncLit, *ast.CommentGroup:
		return nil
	case *ast.FuncDecl:
		l.walk(n.Recv, n.Type)
		return nil
	case *ast.TypeSpec:
		l.walk(n.TypeParams, n.Type)
		return nil
	case *ast.Field:
		l.walk(n.Type)
		return nil
	case *ast.KeyValueExpr:
		l.walk(n.Value)
		return nil
	case *ast.ValueSpec:
		for _, name := range n.Names {
			if l.volume.documents(name.Name) {
				l.mark(name, mark{anchor: name.Name})
			}
		}
		l.walk(n.Type)
		for _, value := range n.Values {
			l.walk(value)
		}
		return nil
	case *ast.SelectorExpr:
		l.selector(n)
		return nil
	case *ast.Ident:
		l.name(n)
	}
	return l
}

// walk goes on with those of the nodes that are there.
func (l *linker) walk(nodes ...ast.Node) {
	for _, n := range nodes {
		switch n := n.(type) {
		case nil:
			continue
		case *ast.FieldList:
			if n == nil {
				continue
			}
		}
		ast.Walk(l, n)
	}
}

func (l *linker) selector(n *ast.SelectorExpr) {
	x, ok := n.X.(*ast.Ident)
	if !ok {
		l.walk(n.X)
		return
	}
	if path := l.imports[x.Name]; path != "" {
		l.link(n, l.catalogue.symbolHref(path, n.Sel.Name))
		return
	}
	l.name(x)
}

func (l *linker) name(n *ast.Ident) {
	if l.own[n.Name] {
		return
	}
	href := l.catalogue.symbolHref(l.volume.path, n.Name)
	if href == "" {
		href = l.catalogue.symbolHref("builtin", n.Name)
	}
	l.link(n, href)
}

func (l *linker) link(n ast.Node, href string) {
	path, fragment, _ := strings.Cut(href, "#")
	if href == "" || path == l.self.path && fragment == "" {
		return
	}
	l.mark(n, mark{href: href})
	if path != l.self.path && !strings.HasPrefix(path, packagePath("builtin")+"/") {
		l.mentioned = appendNew(l.mentioned, path)
	}
}

func (l *linker) mark(n ast.Node, k mark) {
	k.from, k.to = int(n.Pos())-l.base, int(n.End())-l.base
	l.found = append(l.found, k)
}

// typeParams returns the names that a declaration binds itself.
func typeParams(decl ast.Decl) map[string]bool {
	own := make(map[string]bool)
	bind := func(list *ast.FieldList) {
		if list == nil {
			return
		}
		for _, field := range list.List {
			for _, name := range field.Names {
				own[name.Name] = true
			}
		}
	}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		bind(decl.Type.TypeParams)
		if decl.Recv != nil {
			bindReceiver(own, decl.Recv)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if spec, ok := spec.(*ast.TypeSpec); ok {
				bind(spec.TypeParams)
			}
		}
	}
	return own
}

// bindReceiver enters the T of a receiver *List[T].
func bindReceiver(own map[string]bool, recv *ast.FieldList) {
	ast.Inspect(recv, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IndexExpr:
			if id, ok := n.Index.(*ast.Ident); ok {
				own[id.Name] = true
			}
		case *ast.IndexListExpr:
			for _, index := range n.Indices {
				if id, ok := index.(*ast.Ident); ok {
					own[id.Name] = true
				}
			}
		}
		return true
	})
}
