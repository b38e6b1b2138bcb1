package site

import (
	"go/ast"
	"go/doc"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// namesShown is how many names of a group are spelt out where it is listed.
const namesShown = 8

func (b *binder) typeSheet(p *page, t *doc.Type) sheet {
	m := new(markup)
	b.title(m, "type "+t.Name, t.Decl)
	mentioned := b.declaration(m, t.Decl, p)
	b.comment(m, t.Doc, true)
	if len(t.Consts)+len(t.Vars) > 0 {
		m.heading("Constants and variables")
		b.groupList(m, append(append([]*doc.Value(nil), t.Consts...), t.Vars...))
	}
	if len(t.Funcs) > 0 {
		m.heading("Functions")
		b.funcList(m, t.Funcs)
	}
	if len(t.Methods) > 0 {
		m.heading("Methods")
	}
	for _, f := range t.Methods {
		m.tags(`<section><h3 id="`)
		m.text(t.Name, ".", f.Name)
		m.tags(`">`)
		m.text(f.Name)
		b.origin(m, f.Decl)
		m.tags("</h3>\n")
		for _, path := range b.declaration(m, f.Decl, p) {
			mentioned = appendNew(mentioned, path)
		}
		b.comment(m, f.Doc, false)
		m.tags("</section>\n")
	}
	b.seeAlso(m, mentioned)
	return m.sheet("type "+t.Name+" – "+b.volume.path, b.doc.Synopsis(t.Doc))
}

func (b *binder) funcSheet(p *page, f *doc.Func) sheet {
	m := new(markup)
	b.title(m, "func "+f.Name, f.Decl)
	mentioned := b.declaration(m, f.Decl, p)
	b.comment(m, f.Doc, true)
	b.seeAlso(m, mentioned)
	return m.sheet("func "+f.Name+" – "+b.volume.path, b.doc.Synopsis(f.Doc))
}

func (b *binder) groupSheet(p *page, group *doc.Value) sheet {
	m := new(markup)
	title := p.kind.String() + " " + p.name
	if more := len(group.Names) - 1; more > 0 {
		title += " and " + strconv.Itoa(more) + " more"
	}
	b.title(m, title, group.Decl)
	b.comment(m, group.Doc, true)
	mentioned := b.declaration(m, group.Decl, p)
	b.seeAlso(m, mentioned)
	return m.sheet(title+" – "+b.volume.path, b.doc.Synopsis(group.Doc))
}

// title writes the heading of a page with the place of the declaration.
func (b *binder) title(m *markup, title string, decl ast.Decl) {
	m.tags("<h1>")
	m.text(title)
	b.origin(m, decl)
	m.tags("</h1>\n")
}

// origin writes the file and line of a declaration, linked where it has a page.
func (b *binder) origin(m *markup, decl ast.Decl) {
	at := b.position(decl)
	file := filepath.Base(at.Filename)
	line := strconv.Itoa(at.Line)
	href := b.catalogue.sourceHref(b.volume.path, file)
	if href != "" {
		href += "#L" + line
	}
	m.tags(" <small>")
	m.link(href, file+":"+line)
	m.tags("</small>")
}

// seeAlso lists the pages that the declarations of a page mention.
func (b *binder) seeAlso(m *markup, paths []string) {
	if len(paths) == 0 {
		return
	}
	m.heading("See also")
	m.tags("<ul>\n")
	for _, path := range paths {
		p := b.catalogue.byPath[path]
		m.tags("<li>")
		m.link(path, p.kind.String()+" "+p.volume.path+"."+p.name)
		m.tags("</li>\n")
	}
	m.tags("</ul>\n")
}

func (b *binder) funcList(m *markup, funcs []*doc.Func) {
	m.tags("<ul class=\"code\">\n")
	for _, f := range funcs {
		m.tags("<li>")
		m.link(b.catalogue.symbolHref(b.volume.path, f.Name), b.signature(f.Decl))
		m.tags("</li>\n")
	}
	m.tags("</ul>\n")
}

func (b *binder) groupList(m *markup, groups []*doc.Value) {
	m.tags("<ul class=\"code\">\n")
	for _, group := range groups {
		name := b.groupName(group)
		if name == "" {
			continue
		}
		m.tags("<li>", group.Decl.Tok.String(), " ")
		href := ""
		if p := b.page(name); p != nil {
			href = p.path
		}
		label := strings.Join(group.Names[:min(namesShown, len(group.Names))], ", ")
		if len(group.Names) > namesShown {
			label += ", …"
		}
		m.link(href, label)
		m.tags("</li>\n")
	}
	m.tags("</ul>\n")
}

func appendNew(paths []string, path string) []string {
	if slices.Contains(paths, path) {
		return paths
	}
	return append(paths, path)
}
