package site

import (
	"bytes"
	_ "embed"
	"html"
	"net/http"
	"strconv"
)

//go:embed style.css
var style string

// markup builds HTML. Only tags takes markup, and only literals are given to
// it; whatever comes from a source file goes through a method that escapes.
type markup struct{ b bytes.Buffer }

// tags writes markup as it is.
func (m *markup) tags(literals ...string) {
	for _, s := range literals {
		m.b.WriteString(s)
	}
}

// text writes text, escaped for use between tags and in quoted attributes.
func (m *markup) text(parts ...string) {
	for _, s := range parts {
		m.b.WriteString(html.EscapeString(s))
	}
}

// link writes a link, or the label alone where there is no page to link to.
func (m *markup) link(href, label string) {
	if href == "" {
		m.text(label)
		return
	}
	m.tags(`<a href="`)
	m.text(href)
	m.tags(`">`)
	m.text(label)
	m.tags(`</a>`)
}

// heading writes a heading with the label of what follows.
func (m *markup) heading(label string) {
	m.tags("<h2>")
	m.text(label)
	m.tags("</h2>\n")
}

// A sheet is the part of a page that is its own.
type sheet struct {
	title       string
	description string
	main        []byte
}

func (m *markup) sheet(title, description string) sheet {
	return sheet{title: title, description: description, main: bytes.Clone(m.b.Bytes())}
}

// frame makes a whole page of a sheet.
func (c *catalogue) frame(p *page, s sheet) []byte {
	m := new(markup)
	m.b.Grow(len(s.main) + len(style) + 2048)
	m.head(s.title+" – Go standard library", s.description)
	m.tags("<header>\n<nav aria-label=\"breadcrumb\">")
	c.crumbs(m, p)
	m.tags("</nav>\n<span>")
	m.text(c.version)
	m.tags("</span>\n</header>\n<main data-kind=\"", p.kind.String())
	if p.volume != nil {
		m.tags(`" data-package="`)
		m.text(p.volume.path)
		m.tags(`" data-name="`)
		m.text(p.name)
	}
	m.tags("\">\n")
	m.b.Write(s.main)
	m.tags("</main>\n")
	m.neighbours(p)
	m.tags("</body>\n</html>\n")
	return m.b.Bytes()
}

// head writes everything up to the start of the body's content.
func (m *markup) head(title, description string) {
	m.tags("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>")
	m.text(title)
	m.tags("</title>\n")
	if description != "" {
		m.tags(`<meta name="description" content="`)
		m.text(description)
		m.tags("\">\n")
	}
	m.tags("<style>\n", style, "</style>\n</head>\n<body>\n")
}

// crumbs writes the way from the index to the page.
func (c *catalogue) crumbs(m *markup, p *page) {
	if p.volume == nil {
		m.text("Go standard library")
		return
	}
	m.link("/", "Go standard library")
	m.tags(" › ")
	if p.kind == kindPackage {
		m.text(p.volume.path)
		return
	}
	m.link(packagePath(p.volume.path), p.volume.path)
	m.tags(" › ")
	m.text(p.name)
}

// neighbours writes the links to the pages before and after.
func (m *markup) neighbours(p *page) {
	if p.prev == nil && p.next == nil {
		return
	}
	m.tags("<footer>\n<nav aria-label=\"neighbours\">\n<span>")
	if p.prev != nil {
		m.tags("← ")
		m.link(p.prev.path, p.prev.label())
	}
	m.tags("</span>\n<span>")
	if p.next != nil {
		m.link(p.next.path, p.next.label())
		m.tags(" →")
	}
	m.tags("</span>\n</nav>\n</footer>\n")
}

// label names a page among its neighbours.
func (p *page) label() string {
	if p.kind == kindPackage {
		return p.volume.path
	}
	return p.name
}

// noticeBody returns a page that says a status and no more.
func noticeBody(status int) []byte {
	m := new(markup)
	label := strconv.Itoa(status) + " " + http.StatusText(status)
	m.head(label, "")
	m.tags("<header>")
	m.link("/", "Go standard library")
	m.tags("</header>\n<main data-kind=\"notice\">\n<h1>")
	m.text(label)
	m.tags("</h1>\n</main>\n</body>\n</html>\n")
	return m.b.Bytes()
}
