package site

import "go/doc"

// packageSheet renders the page of a package: its comment, and links to
// everything in it and around it.
func (b *binder) packageSheet() sheet {
	m := new(markup)
	m.tags("<h1>")
	m.text("package " + b.volume.name)
	m.tags("</h1>\n<pre class=\"decl\">")
	m.text(`import "` + b.volume.path + `"`)
	m.tags("</pre>\n")
	b.comment(m, b.doc.Doc, true)
	if len(b.doc.Consts)+len(b.doc.Vars) > 0 {
		m.heading("Constants and variables")
		b.groupList(m, append(append([]*doc.Value(nil), b.doc.Consts...), b.doc.Vars...))
	}
	if len(b.doc.Funcs) > 0 {
		m.heading("Functions")
		b.funcList(m, b.doc.Funcs)
	}
	if len(b.doc.Types) > 0 {
		m.heading("Types")
		b.typeList(m)
	}
	b.fileList(m)
	b.packageList(m, "Imports", b.volume.imports)
	b.packageList(m, "Imported by", b.volume.importedBy)
	return m.sheet("package "+b.volume.path, b.volume.synopsis)
}

// typeList lists the types, each with its values, functions and methods.
func (b *binder) typeList(m *markup) {
	m.tags("<ul class=\"code\">\n")
	for _, t := range b.doc.Types {
		m.tags("<li>")
		m.link(b.catalogue.symbolHref(b.volume.path, t.Name), "type "+t.Name)
		if len(t.Consts)+len(t.Vars) > 0 {
			b.groupList(m, append(append([]*doc.Value(nil), t.Consts...), t.Vars...))
		}
		if len(t.Funcs) > 0 {
			b.funcList(m, t.Funcs)
		}
		if len(t.Methods) > 0 {
			m.tags("<ul class=\"code\">\n")
			for _, f := range t.Methods {
				m.tags("<li>")
				m.link(b.catalogue.methodHref(b.volume.path, t.Name, f.Name), b.signature(f.Decl))
				m.tags("</li>\n")
			}
			m.tags("</ul>\n")
		}
		m.tags("</li>\n")
	}
	m.tags("</ul>\n")
}

func (b *binder) fileList(m *markup) {
	m.heading("Files")
	m.tags("<p class=\"row\">")
	for _, s := range b.volume.sources {
		m.link(b.catalogue.sourceHref(b.volume.path, s.name), s.name)
		m.tags(" ")
	}
	m.tags("</p>\n")
}

func (b *binder) packageList(m *markup, label string, packages []string) {
	if len(packages) == 0 {
		return
	}
	m.heading(label)
	m.tags("<p class=\"row\">")
	for _, path := range packages {
		m.link(b.catalogue.packageHref(path), path)
		m.tags(" ")
	}
	m.tags("</p>\n")
}
